#!/bin/bash
#SBATCH --job-name=shell.exp_20260304_050607_e3727c
#SBATCH --comment=profllm:exp_20260304_050607_e3727c
#SBATCH --output=/shared/results/steps-of-every-kind_2026-03-04_05-06-07/shell/0/stdout.txt
#SBATCH --error=/shared/results/steps-of-every-kind_2026-03-04_05-06-07/shell/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=anvil
#SBATCH --account=smiths
#SBATCH --distribution=block:cyclic
#SBATCH --nodes=1
#SBATCH --gres=gpu:6
#SBATCH --ntasks-per-node=3
#SBATCH --time=00:01:00
#SBATCH --requeue
#SBATCH --mail-type=FAIL
#
# profllm v0.0.0-golden: scenario steps-of-every-kind, test shell, iteration 0, run exp_20260304_050607_e3727c.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   no roles: commands run one after the other

RUN=/shared/results/steps-of-every-kind_2026-03-04_05-06-07/shell/0
PROFLLM=/shared/profllm/bin/profllm
cd "$RUN" || exit 70
"$PROFLLM" job start --run "$RUN" || exit 70 # the program runs here; this job owns the run

# Steps see this environment, whatever the submitting shell said about exporting.
export SLURM_EXPORT_ENV=ALL
unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE
export HF_HOME=/forge/models/hf
export HF_HUB_CACHE=/forge/models/hf/hub
export NCCL_DEBUG=WARN
export UCX_LOG_LEVEL=error
export TUYERE_COUNT=4
export HOT=False
export BLAST=0.5

GUARD=0   # pid of the srun that watches over the nodes
ROLES=()  # name=pid of each role's srun
CLIENT=() # the same of the client that runs now
PHASES=() # name=exit code of what ran

step() { # step ARGUMENTS &: one srun, whose pid is $!; steps share nodes, no step reads our stdin, one dead task ends its step
  exec srun --overlap --input=none --export=ALL --mpi=none --cpu-bind=none --kill-on-bad-exit=1 --open-mode=append --kill-on-bad-exit=1 --label "$@"
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

finish() { # finish [CODE]: stop the roles by step id, write the sentinel, judge; the job's exit code says it
  local code=${1:-$?} role ends=()
  [ -z "$FINISHING" ] || { LATE=$code; return 0; } # a further signal
  FINISHING=1; trap - EXIT
  (trap '' TERM INT XCPU; exec "$PROFLLM" job stop --run "$RUN" --guard="$GUARD" "${ROLES[@]}" "${CLIENT[@]}")
  trap '' TERM INT XCPU
  [[ $LATE != 143 || $code = 124 || $code = 0 && ! ${PHASES[*]} =~ =[^0] ]] || code=143 # Slurm ends the steps of a job before its script
  for role in "${ROLES[@]}"; do wait "${role#*=}"; ends+=("--role=${role%%=*}=$?"); done
  "$PROFLLM" job finish --run "$RUN" --code "$code" "${ends[@]}" "${PHASES[@]}"
  exit $?
}
FINISHING="" LATE=""; trap finish EXIT
trap 'finish 143' TERM INT; trap 'finish 124' XCPU # XCPU: its own time limit, in an allocation that it shares with others

# Every node: what it looks like, which ports are free. The step stays, and leaves the nodes clean whatever ends the job.
step --job-name=nodes --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 \
  "$PROFLLM" job node --run "$RUN" --stay >nodes.txt &
GUARD=$!
"$PROFLLM" job env --run "$RUN" --guard="$GUARD" & wait $! || exit 71
# shellcheck source=/dev/null
. ./job.env

phase bash step --job-name=bash --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bash-%t.log \
  env CUDA_VISIBLE_DEVICES=0,1,2,3,4,5 \
  bash -c 'printf '\''%s\n'\'' "[[Tests]]"
'
