#!/usr/bin/env bash
# Runs a command with a lab of its own, which it may break: in network, mount and
# process namespaces, so that neither a lab that is up nor anything else on this
# machine notices, and nothing of it is left when the command ends.
#
#   examples/slurm-lab/apart.sh bash -c 'sinfo; examples/slurm-lab/daemon.sh kill slurmctld'
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [[ ${1:-} != --inside ]]; then
  LAB=$(mktemp -d -t slurm-lab-XXXXXX)
  export LAB
  "$here/packages.sh" # there is no network inside
  code=0
  unshare --net --mount --propagation private --pid --fork --kill-child --mount-proc "$here/apart.sh" --inside "$@" || code=$?
  if ((code)) && mv "$LAB/log" "$LAB.log"; then echo "apart.sh: the logs of the lab are in $LAB.log" >&2; fi
  rm -rf "$LAB"
  exit "$code"
fi

shift
ip link set lo up
mkdir -p /run/netns /run/munge /run/mysqld
for dir in /run/netns /run/munge /run/mysqld; do mount -t tmpfs none "$dir"; done
sed '/# slurm-lab$/d' /etc/hosts >"$LAB/hosts.head"
mount --bind "$LAB/hosts.head" /etc/hosts
mkdir -p "$LAB/log"
"$here/up.sh" >"$LAB/log/up.txt" 2>&1 || { tail -n 20 "$LAB/log/up.txt" >&2; exit 1; }
eval "$("$here/env.sh")"
code=0
"$@" || code=$?
"$here/down.sh"
exit "$code"
