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

file=$LAB/run/$daemon.pid
[[ $daemon != slurmd ]] || file=$LAB/run/slurmd.$node.pid

# runs reports whether the pid file's daemon is there: a pid that it no longer has may
# be anybody's.
runs() { [[ -e $file && $(cat "/proc/$(cat "$file")/comm" 2>/dev/null) == "$daemon" ]]; }

start() {
  case $daemon in
    slurmdbd) slurmdbd ;;
    slurmctld)
      slurmctld
      for i in $(seq 600); do
        [[ $(scontrol ping 2>/dev/null) != *UP* ]] || return 0
        sleep 0.1
        # One that gave up is started again, as a site's init system would.
        if ((i % 50 == 0)) && ! runs; then
          echo "daemon.sh: slurmctld ended: $(grep -E 'fatal|error' "$LAB/log/slurmctld.log" | tail -n 1)" >&2
          slurmctld
        fi
      done
      echo "daemon.sh: slurmctld does not answer" >&2
      exit 1
      ;;
    # nsenter, not `ip netns exec`: the latter remounts /sys and hides the cgroups.
    # Nothing answers a name server's address there: each question would wait for 10 s.
    slurmd) nsenter --net="/run/netns/$node" unshare --uts --mount \
      bash -c "hostname '$node'; mount --bind '$LAB/hosts' /etc/hosts; [[ ! -e /etc/resolv.conf ]] || mount --bind /dev/null /etc/resolv.conf; exec slurmd -N '$node'" ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
}

end() {
  runs || { echo "daemon.sh: $name does not run" >&2; exit 1; }
  local pid
  pid=$(cat "$file")
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
