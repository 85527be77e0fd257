#!/bin/bash
#SBATCH --job-name=anvil-vllm.exp_20260304_050607_ff5833
#SBATCH --comment=profllm:exp_20260304_050607_ff5833
#SBATCH --output=/shared/results/shapes_2026-03-04_05-06-07/named.nodes/0/stdout.txt
#SBATCH --error=/shared/results/shapes_2026-03-04_05-06-07/named.nodes/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=batch
#SBATCH --account=research
#SBATCH --nodes=4
#SBATCH --nodelist=iron20,iron22,iron24,iron26
#SBATCH --gres=gpu:8
#SBATCH --time=00:01:30
#
# profllm v0.0.0-golden: scenario shapes, test named.nodes, iteration 0, run exp_20260304_050607_ff5833.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   prefill: nodes 0, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 8800 + slot of the job
#   decode: nodes 1-2, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 8900 + slot of the job
#   proxy: nodes 0, ready when /healthcheck answers on port 8700 + slot of the job

RUN=/shared/results/shapes_2026-03-04_05-06-07/named.nodes/0
PROFLLM=/shared/profllm/bin/profllm
cd "$RUN" || exit 70
"$PROFLLM" job start --run "$RUN" || exit 70 # the program runs here; this job owns the run
unset BASH_ENV CONDA_DEFAULT_ENV CONDA_EXE CONDA_PREFIX CUDA_HOME CUDA_PATH PYTHONHOME PYTHONPATH ROCM_PATH VIRTUAL_ENV # of the submitting shell: containers would see them, where its paths mean nothing

# Steps see this environment, whatever the submitting shell said about exporting.
export SLURM_EXPORT_ENV=ALL
unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_CPU_BIND SLURM_CPU_BIND_LIST SLURM_CPU_BIND_TYPE SLURM_CPU_BIND_VERBOSE
export HF_HOME=/shared/huggingface
export HF_HUB_CACHE=/shared/huggingface/hub
export NCCL_IB_TIMEOUT=20
export VLLM_LOGGING_LEVEL=INFO
export UCX_TLS='^sm'

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
step --job-name=nodes --relative=0 --nodes=4 --ntasks=4 --ntasks-per-node=1 \
  "$PROFLLM" job node --run "$RUN" --stay >nodes.txt &
GUARD=$!
"$PROFLLM" job env --run "$RUN" --guard="$GUARD" & wait $! || exit 71
# shellcheck source=/dev/null
. ./job.env
BOX=('--container-image=registry.example#forge/vllm:2.1'
  '--container-mounts=/shared/results/shapes_2026-03-04_05-06-07/named.nodes/0:/cloudai_run_results,/shared/profllm:/cloudai_install,/shared/results/shapes_2026-03-04_05-06-07/named.nodes/0:/shared/results/shapes_2026-03-04_05-06-07/named.nodes/0,/forge/prompts:/prompts,/forge/scratch:/scratch,/shared/profllm/evals__release_7:/evals,/shared/profllm/tools__0123abc:/git/tools__0123abc,/shared/profllm/proxies__main:/tools,/shared/huggingface:/root/.cache/huggingface,/shared/huggingface:/shared/huggingface,/shared/profllm/bin/profllm:/shared/profllm/bin/profllm:ro,/shared/secrets/hf-token:/shared/secrets/hf-token:ro'
  '--container-env=NCCL_IB_TIMEOUT,VLLM_LOGGING_LEVEL,UCX_TLS,HF_HOME,HF_HUB_CACHE' --no-container-mount-home
  --container-writable
  "$PROFLLM" job exec --run "$RUN" --file=HF_TOKEN=/shared/secrets/hf-token --) # words of several steps

# prefill: nodes 0, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 8800 + slot of the job
step --job-name=prefill --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/prefill-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=prefill CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 VLLM_NIXL_SIDE_CHANNEL_HOST="$PREFILL_ADDR" \
  VLLM_NIXL_SIDE_CHANNEL_PORT="$PREFILL_NIXL_PORT" VLLM_HOST_IP="$PREFILL_ADDR" \
  bash -c 'ulimit -l unlimited
exec "$@"' prefill vllm serve forge/hammer-9b --host 0.0.0.0 \
  --port "$PREFILL_PORT" --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}' \
  --seed 17 & ROLES+=("prefill=$!")

# decode: nodes 1-2, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 8900 + slot of the job
step --job-name=decode --relative=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 --wait=5 --output="$RUN"/logs/decode-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=decode CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 VLLM_NIXL_SIDE_CHANNEL_HOST="$DECODE_ADDR" \
  VLLM_NIXL_SIDE_CHANNEL_PORT="$DECODE_NIXL_PORT" \
  "$PROFLLM" job ray --nodes 2 --head "$DECODE_ADDR" --port "$DECODE_RAY_PORT" --timeout 15m0s -- bash \
  -c 'ulimit -l unlimited
exec "$@"' decode vllm serve forge/hammer-9b --host 0.0.0.0 --port "$DECODE_PORT" \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}' --enforce-eager \
  --max-num-seqs 96 --hf-overrides '{"rope_scaling":{"factor":2.0}}' --data-parallel-size 2 --seed 17 \
  --distributed-executor-backend ray --data-parallel-backend ray --data-parallel-size-local 1 & ROLES+=("decode=$!")

# proxy: nodes 0, ready when /healthcheck answers on port 8700 + slot of the job
step --job-name=proxy --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/proxy-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=proxy python3 /tools/proxy.py --host 0.0.0.0 --port "$PROXY_PORT" \
  --prefiller-hosts "$PREFILL_ADDR" --prefiller-ports "$PREFILL_PORT" --decoder-hosts "$DECODE_ADDR" \
  --decoder-ports "$DECODE_PORT" & ROLES+=("proxy=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase bench step --job-name=bench --relative=3 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bench-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=client vllm bench serve --model forge/hammer-9b --base-url http://iron20:"$PROXY_PORT" \
  --random-input-len 640 --random-output-len 48 --max-concurrency 12 --num-prompts 480 \
  --result-dir /shared/results/shapes_2026-03-04_05-06-07/named.nodes/0/raw --result-filename vllm-bench.json \
  --save-result --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99 --temperature 0

phase eval step --job-name=eval --relative=3 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/eval-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=client python3 /evals/gsm8k.py --host http://iron20 --port "$PROXY_PORT" --num-questions 90 \
  --save-results /shared/results/shapes_2026-03-04_05-06-07/named.nodes/0/raw/vllm-gsm8k.json
