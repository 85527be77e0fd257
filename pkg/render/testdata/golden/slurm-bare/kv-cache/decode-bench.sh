#!/bin/bash
#SBATCH --job-name=decode-bench.exp_20260304_050607_d9e571
#SBATCH --comment=profllm:exp_20260304_050607_d9e571
#SBATCH --output=/shared/results/kv-cache_2026-03-04_05-06-07/decode-bench/0/stdout.txt
#SBATCH --error=/shared/results/kv-cache_2026-03-04_05-06-07/decode-bench/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=gpu
#SBATCH --nodes=1
#SBATCH --gres=gpu:4
#SBATCH --time=00:10:00
#SBATCH --signal=B:TERM@90
#
# profllm v0.0.0-golden: scenario kv-cache, test decode-bench, iteration 0, run exp_20260304_050607_d9e571.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   serve: nodes 0, GPUs 0,1,2,3, ready when /health answers on port 8300 + slot of the job

RUN=/shared/results/kv-cache_2026-03-04_05-06-07/decode-bench/0
PROFLLM=/shared/profllm/bin/profllm
cd "$RUN" || exit 70
"$PROFLLM" job start --run "$RUN" || exit 70 # the program runs here; this job owns the run

module load cuda vllm

# Steps see this environment, whatever the submitting shell said about exporting.
export SLURM_EXPORT_ENV=ALL
unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE

GUARD=0   # pid of the srun that watches over the nodes
ROLES=()  # name=pid of each role's srun
CLIENT=() # the same of the client that runs now
PHASES=() # name=exit code of what ran

step() { # step ARGUMENTS &: one srun, whose pid is $!; steps share nodes, no step reads our stdin, one dead task ends its step
  exec srun --overlap --input=none --export=ALL --mpi=none --cpu-bind=none --kill-on-bad-exit=1 --open-mode=append --cpus-per-gpu=8 "$@"
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

# serve: nodes 0, GPUs 0,1,2,3, ready when /health answers on port 8300 + slot of the job
step --job-name=serve --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/serve-%t.log \
  env PROFLLM_ROLE=serve CUDA_VISIBLE_DEVICES=0,1,2,3 VLLM_HOST_IP="$SERVE_ADDR" \
  vllm serve Qwen/Qwen3-8B --host 0.0.0.0 --tensor-parallel-size 4 \
  --kv-transfer-config '{"kv_connector":"DecodeBenchConnector","kv_role":"kv_both","kv_connector_extra_config":{"fill_mean":0.015,"fill_std":0.0}}' \
  --port "$SERVE_PORT" & ROLES+=("serve=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bench-%t.log \
  env PROFLLM_ROLE=client vllm bench serve --model Qwen/Qwen3-8B --base-url http://"$SERVE_ADDR":"$SERVE_PORT" \
  --random-input-len 8192 --random-output-len 64 --max-concurrency 16 --num-prompts 80 \
  --result-dir /shared/results/kv-cache_2026-03-04_05-06-07/decode-bench/0/raw --result-filename vllm-bench.json \
  --save-result --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99 --temperature 0
