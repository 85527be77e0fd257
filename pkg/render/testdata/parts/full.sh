#!/bin/bash
#SBATCH --job-name=a.exp_1
#SBATCH --comment=profllm:exp_1
#SBATCH --output=/out/s/a/0/stdout.txt
#SBATCH --error=/out/s/a/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --nodes=1
#
# profllm v1: scenario s, test a, iteration 0, run exp_1.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   serve: nodes 0, GPUs 0, ready when /health answers on port 8300 + slot of the job

RUN=/out/s/a/0
PROFLLM=/bin/profllm
cd "$RUN" || exit 70
"$PROFLLM" job start --run "$RUN" || exit 70 # the program runs here; this job owns the run

# Steps see this environment, whatever the submitting shell said about exporting.
export SLURM_EXPORT_ENV=ALL
unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE

GUARD=0   # pid of the srun that watches over the nodes
ROLES=()  # name=pid of each role's srun
CLIENT=() # the same of the client that runs now
PHASES=() # name=exit code of what ran

step() { # step ARGUMENTS &: one srun, whose pid is $!; steps share nodes, no step reads our stdin, one dead task ends its step
  exec srun --overlap --input=none --export=ALL --mpi=none --cpu-bind=none --kill-on-bad-exit=1 --open-mode=append "$@"
}

phase() { # phase NAME COMMAND...: run a client; a role that dies meanwhile, with no other instance of it, ends the job
  local name=$1 pid; shift
  "$@" &
  pid=$!
  CLIENT=("$name=$pid")
  "$PROFLLM" job watch --run "$RUN" --client "$name" --until "$pid" "${ROLES[@]}" &
  wait $! || { PHASES+=("$name=lost"); exit 1; }
  wait "$pid"; PHASES+=("$name=$?")
  CLIENT=()
}

POST=()  # runs that go after this one
hook() { # hook DIR &: a run of its own inside this job
  exec bash "$RUN/$1/job.sh" >>"$RUN/$1/stdout.txt" 2>>"$RUN/$1/stderr.txt"
}

finish() { # finish [CODE]: stop the roles by step id, write the sentinel, judge; the job's exit code says it
  local code=${1:-$?} role ends=()
  [ -z "$FINISHING" ] || { LATE=$code; return 0; } # a further signal
  FINISHING=1; trap - EXIT
  (trap '' TERM INT XCPU; exec "$PROFLLM" job stop --run "$RUN" --guard="$GUARD" "${ROLES[@]}" "${CLIENT[@]}")
  trap '' TERM INT XCPU
  [[ $LATE != 143 || $code = 124 || $code = 0 && ! ${PHASES[*]} =~ =[^0] ]] || code=143 # Slurm ends the steps of a job before its script
  for role in "${ROLES[@]}"; do wait "${role#*=}"; ends+=("--role=${role%%=*}=$?"); done
  trap 'code=143; kill $!' TERM INT; trap 'code=124; kill $!' XCPU
  for role in "${POST[@]}"; do
    [[ $code = 143 || $code = 124 ]] || { hook "$role" & wait $! || wait $!; PHASES+=("$role=$?"); }
  done
  trap '' TERM INT XCPU
  "$PROFLLM" job finish --run "$RUN" --code "$code" "${ends[@]}" "${PHASES[@]}"
  exit $?
}
FINISHING="" LATE=""; trap finish EXIT
trap 'finish 143' TERM INT; trap 'finish 124' XCPU # XCPU: its own time limit, in an allocation that it shares with others
"$PROFLLM" job until --run "$RUN" --pid $$ /out/s/b/0 '/out/s/c d/0' & # ends this job when those runs are over
phase pre_test/warm hook pre_test/warm
[ "${PHASES[-1]}" = pre_test/warm=0 ] || exit 1
phase pre_test/nccl.2 hook pre_test/nccl.2
[ "${PHASES[-1]}" = pre_test/nccl.2=0 ] || exit 1
POST+=(post_test/check)

# Every node: what it looks like, which ports are free. The step stays, and leaves the nodes clean whatever ends the job.
step --job-name=nodes --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 \
  "$PROFLLM" job node --run "$RUN" --stay >nodes.txt &
GUARD=$!
"$PROFLLM" job env --run "$RUN" --guard="$GUARD" & wait $! || exit 71
# shellcheck source=/dev/null
. ./job.env

# serve: nodes 0, GPUs 0, ready when /health answers on port 8300 + slot of the job
step --job-name=serve --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/serve-%t.log \
  vllm serve m & ROLES+=("serve=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase 1/load "$PROFLLM" job load --run "$RUN" --name 1
if [ "${PHASES[-1]}" = 1/load=0 ]; then
phase 1/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bench-%t.log \
  vllm bench
fi

phase 2/load "$PROFLLM" job load --run "$RUN" --name 2
if [ "${PHASES[-1]}" = 2/load=0 ]; then
phase 2/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output=/out/s/a/2/logs/bench-%t.log \
  vllm bench
phase 2/eval step --job-name=eval --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/../2/logs/eval-%t.log \
  eval
fi

"$PROFLLM" job enough --run "$RUN" --name 1.r2 || phase 1.r2/load "$PROFLLM" job load --run "$RUN" --name 1.r2
if [ "${PHASES[-1]}" = 1.r2/load=0 ]; then
phase 1.r2/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bench-%t.log \
  vllm bench
fi
