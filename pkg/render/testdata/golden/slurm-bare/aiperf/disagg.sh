#!/bin/bash
#SBATCH --job-name=disagg.exp_20260304_050607_375159
#SBATCH --comment=profllm:exp_20260304_050607_375159
#SBATCH --output=/shared/results/aiperf_2026-03-04_05-06-07/disagg/0/stdout.txt
#SBATCH --error=/shared/results/aiperf_2026-03-04_05-06-07/disagg/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
#SBATCH --time=00:30:00
#SBATCH --signal=B:TERM@90
#
# profllm v0.0.0-golden: scenario aiperf, test disagg, iteration 0, run exp_20260304_050607_375159.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   prefill: nodes 0, GPUs 0,1,2,3, ready when /health answers on port 8400 + slot of the job
#   decode: nodes 1, GPUs 0,1,2,3, ready when /health answers on port 8500 + slot of the job
#   proxy: nodes 0, ready when /healthcheck answers on port 8300 + slot of the job

RUN=/shared/results/aiperf_2026-03-04_05-06-07/disagg/0
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
step --job-name=nodes --relative=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 \
  "$PROFLLM" job node --run "$RUN" --stay >nodes.txt &
GUARD=$!
"$PROFLLM" job env --run "$RUN" --guard="$GUARD" & wait $! || exit 71
# shellcheck source=/dev/null
. ./job.env
BENCH_COMMAND=(env PROFLLM_ROLE=client aiperf profile --model Qwen/Qwen3-8B --endpoint-type chat --streaming
  --url http://"$PROXY_ADDR":"$PROXY_PORT" --extra-inputs '{"ignore_eos":true}' --use-server-token-count
  --warmup-request-count 8) # words of several steps
BENCH_OPTIONS=(--server-metrics http://"$PROXY_ADDR":"$PROXY_PORT"/metrics http://"$PREFILL_ADDR":"$PREFILL_PORT"/metrics http://"$DECODE_ADDR":"$DECODE_PORT"/metrics
  --no-gpu-telemetry --ui none) # words of several steps

# prefill: nodes 0, GPUs 0,1,2,3, ready when /health answers on port 8400 + slot of the job
step --job-name=prefill --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/prefill-%t.log \
  env PROFLLM_ROLE=prefill CUDA_VISIBLE_DEVICES=0,1,2,3 VLLM_NIXL_SIDE_CHANNEL_HOST="$PREFILL_ADDR" \
  VLLM_NIXL_SIDE_CHANNEL_PORT="$PREFILL_NIXL_PORT" VLLM_HOST_IP="$PREFILL_ADDR" \
  vllm serve Qwen/Qwen3-8B --host 0.0.0.0 --port "$PREFILL_PORT" \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}' & ROLES+=("prefill=$!")

# decode: nodes 1, GPUs 0,1,2,3, ready when /health answers on port 8500 + slot of the job
step --job-name=decode --relative=1 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/decode-%t.log \
  env PROFLLM_ROLE=decode CUDA_VISIBLE_DEVICES=0,1,2,3 VLLM_NIXL_SIDE_CHANNEL_HOST="$DECODE_ADDR" \
  VLLM_NIXL_SIDE_CHANNEL_PORT="$DECODE_NIXL_PORT" VLLM_HOST_IP="$DECODE_ADDR" \
  vllm serve Qwen/Qwen3-8B --host 0.0.0.0 --port "$DECODE_PORT" \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}' & ROLES+=("decode=$!")

# proxy: nodes 0, ready when /healthcheck answers on port 8300 + slot of the job
step --job-name=proxy --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/proxy-%t.log \
  env PROFLLM_ROLE=proxy "$PROFLLM" proxy --host 0.0.0.0 --port "$PROXY_PORT" \
  --prefill http://"$PREFILL_ADDR":"$PREFILL_PORT" --decode http://"$DECODE_ADDR":"$DECODE_PORT" & ROLES+=("proxy=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase long-prompts/load "$PROFLLM" job load --run "$RUN" --name long-prompts
if [ "${PHASES[-1]}" = long-prompts/load=0 ]; then
phase long-prompts/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/long-prompts/logs/bench-%t.log "${BENCH_COMMAND[@]}" \
  --isl 4096 --osl 64 --concurrency 8 --request-count 80 --random-seed 1 \
  --artifact-dir /shared/results/aiperf_2026-03-04_05-06-07/disagg/0/long-prompts/raw "${BENCH_OPTIONS[@]}"
fi

phase long-answers/load "$PROFLLM" job load --run "$RUN" --name long-answers
if [ "${PHASES[-1]}" = long-answers/load=0 ]; then
phase long-answers/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/long-answers/logs/bench-%t.log "${BENCH_COMMAND[@]}" \
  --isl 128 --osl 512 --concurrency 16 --request-count 160 --random-seed 2 \
  --artifact-dir /shared/results/aiperf_2026-03-04_05-06-07/disagg/0/long-answers/raw "${BENCH_OPTIONS[@]}"
fi
