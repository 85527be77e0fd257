#!/usr/bin/env bash
# Breaks and mends one daemon of the lab, which is known by its pid file.
#
#   daemon.sh start|kill|restart slurmctld|slurmdbd|slurmd@NODE
#   daemon.sh down|resume NODE
#
# kill is KILL: the daemon says goodbye to nobody, and the jobs go on.
set -euo pipefail
LAB=${LAB:-/tmp/slurm-lab}
export SLURM_CONF=$LAB/slurm.conf
usage="usage: daemon.sh start|kill|restart slurmctld|slurmdbd|slurmd@NODE, or down|resume NODE"
deed=${1:?$usage} name=${2:?$usage}
daemon=${name%%@*} node=${name#*@}

start() {
  case $daemon in
    slurmdbd) slurmdbd ;;
    slurmctld)
      slurmctld
      for _ in $(seq 600); do
        [[ $(scontrol ping 2>/dev/null) != *UP* ]] || return 0
        sleep 0.1
      done
      echo "daemon.sh: slurmctld does not answer" >&2
      exit 1
      ;;
    # nsenter, not `ip netns exec`: the latter remounts /sys and hides the cgroups
    slurmd) nsenter --net="/run/netns/$node" unshare --uts --mount \
      bash -c "hostname '$node'; mount --bind '$LAB/hosts' /etc/hosts; exec slurmd -N '$node'" ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
}

end() {
  local file=$LAB/run/$daemon.pid pid
  [[ $daemon != slurmd ]] || file=$LAB/run/slurmd.$node.pid
  pid=$(cat "$file")
  # A pid that the file's daemon no longer has may be anybody's.
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "$daemon" ]] || { echo "daemon.sh: $name does not run" >&2; exit 1; }
  kill -KILL "$pid"
  while [[ -e /proc/$pid ]]; do sleep 0.05; done
  rm -f "$file"
}

case $deed in
  start) start ;;
  kill) end ;;
  restart) end; start ;;
  down) scontrol update "nodename=$name" state=down reason=daemon.sh ;;
  # a node whose slurmd answers is back by itself (ReturnToService=2)
  resume) [[ $(sinfo -h -N -n "$name" -p main -o %t) != down* ]] || scontrol update "nodename=$name" state=resume ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
