#!/bin/bash
#SBATCH --job-name=crucible-dynamo.exp_20260304_050607_839421
#SBATCH --comment=profllm:exp_20260304_050607_839421
#SBATCH --output=/shared/results/crucible_2026-03-04_05-06-07/shared/0/stdout.txt
#SBATCH --error=/shared/results/crucible_2026-03-04_05-06-07/shared/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=batch
#SBATCH --account=research
#SBATCH --nodes=1
#SBATCH --gres=gpu:8
#SBATCH --time=00:40:00
#SBATCH --signal=B:TERM@90
#
# profllm v0.0.0-golden: scenario crucible, test shared, iteration 0, run exp_20260304_050607_839421.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   dcgm_exporter: nodes 0, ready when /metrics answers on port 9500 + slot of the job
#   decode: nodes 0, GPUs 0,1, ready when /health answers on port 15000 + slot of the job
#   prefill: nodes 0, GPUs 2,3, ready when /health answers on port 15100 + slot of the job
#   frontend: nodes 0, ready when /health answers on port 8000 + slot of the job

RUN=/shared/results/crucible_2026-03-04_05-06-07/shared/0
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
export UCX_TLS=all
export DYN_KVBM_CPU_CACHE_GB=20
export DYN_KVBM_METRICS=1

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
step --job-name=nodes --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 \
  "$PROFLLM" job node --run "$RUN" --stay >nodes.txt &
GUARD=$!
"$PROFLLM" job env --run "$RUN" --guard="$GUARD" & wait $! || exit 71
# shellcheck source=/dev/null
. ./job.env
BOX=('--container-image=registry.example#forge/dynamo-vllm:7'
  '--container-mounts=/shared/results/crucible_2026-03-04_05-06-07/shared/0:/cloudai_run_results,/shared/profllm:/cloudai_install,/shared/results/crucible_2026-03-04_05-06-07/shared/0:/shared/results/crucible_2026-03-04_05-06-07/shared/0,/run/udev:/run/udev,/tmp:/tmp,/shared/huggingface:/root/.cache/huggingface,/shared/huggingface:/shared/huggingface'
  '--container-env=NCCL_IB_TIMEOUT,UCX_TLS,DYN_KVBM_CPU_CACHE_GB,DYN_KVBM_METRICS,HF_HOME,HF_HUB_CACHE'
  --no-container-mount-home --container-writable) # words of several steps
BOX2=('--container-image=registry.example#forge/dynamo-vllm:7'
  '--container-mounts=/shared/results/crucible_2026-03-04_05-06-07/shared/0:/cloudai_run_results,/shared/profllm:/cloudai_install,/shared/results/crucible_2026-03-04_05-06-07/shared/0:/shared/results/crucible_2026-03-04_05-06-07/shared/0,/run/udev:/run/udev,/tmp:/tmp,/shared/huggingface:/root/.cache/huggingface,/shared/huggingface:/shared/huggingface,/shared/profllm/bin/profllm:/shared/profllm/bin/profllm:ro,/shared/secrets/hf-token:/shared/secrets/hf-token:ro'
  '--container-env=NCCL_IB_TIMEOUT,UCX_TLS,DYN_KVBM_CPU_CACHE_GB,DYN_KVBM_METRICS,HF_HOME,HF_HUB_CACHE'
  --no-container-mount-home --container-writable
  "$PROFLLM" job exec --run "$RUN" --file=HF_TOKEN=/shared/secrets/hf-token --) # words of several steps
BENCH_COMMAND=("${BOX2[@]}"
  env PROFLLM_ROLE=client bash
  -c '{ pip install --target /tmp/aiperf '\''aiperf==0.13.0'\''
} || exit; exec "$@"' bench) # words of several steps
BENCH_OPTIONS=(--server-metrics http://"$FRONTEND_ADDR":"$FRONTEND_PORT"/metrics http://"$DECODE_ADDR":"$DECODE_PORT"/metrics http://"$DECODE_ADDR":"$DECODE_KVBM_METRICS_PORT"/metrics http://"$PREFILL_ADDR":"$PREFILL_PORT"/metrics http://"$PREFILL_ADDR":"$PREFILL_KVBM_METRICS_PORT"/metrics http://"$DCGM_EXPORTER_ADDR":"$DCGM_EXPORTER_PORT"/metrics
  --no-gpu-telemetry --ui none) # words of several steps

step --job-name=node_setup --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/node_setup-%t.log "${BOX[@]}" \
  bash -c 'ls /dev/infiniband; true' & CLIENT=("node_setup=$!"); wait $!; CLIENT=() # before the servers

step --job-name=kvbm_storage --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/kvbm_storage-%t.log "${BOX[@]}" \
  sh \
  -c 'mkdir -p -m 700 "$1" && [ -O "$1" ] && [ ! -L "$1" ] && mkdir -p "$1/$2" || { echo "$1 is no folder of this user" >&2; exit 1; }' kvbm_storage /tmp/profllm-exp_20260304_050607_839421 kvbm & CLIENT=("kvbm_storage=$!"); wait $! || { PHASES+=("kvbm_storage=$?"); exit 1; }; CLIENT=() # before the servers

# dcgm_exporter: nodes 0, ready when /metrics answers on port 9500 + slot of the job
step --job-name=dcgm_exporter --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/dcgm_exporter-%t.log \
  '--container-image=nvcr.io#nvidia/k8s/dcgm-exporter:4.5.2-4.8.1-distroless' \
  --container-mounts=/shared/results/crucible_2026-03-04_05-06-07/shared/0:/cloudai_run_results,/shared/profllm:/cloudai_install,/shared/results/crucible_2026-03-04_05-06-07/shared/0:/shared/results/crucible_2026-03-04_05-06-07/shared/0,/run/udev:/run/udev,/tmp:/tmp,/shared/huggingface:/root/.cache/huggingface,/shared/huggingface:/shared/huggingface,/shared/profllm/bin/profllm:/shared/profllm/bin/profllm:ro,/shared/secrets/hf-token:/shared/secrets/hf-token:ro \
  --container-env=NCCL_IB_TIMEOUT,UCX_TLS,DYN_KVBM_CPU_CACHE_GB,DYN_KVBM_METRICS,HF_HOME,HF_HUB_CACHE \
  --no-container-mount-home --container-writable \
  "$PROFLLM" job exec --run "$RUN" --file=HF_TOKEN=/shared/secrets/hf-token -- \
  env PROFLLM_ROLE=dcgm_exporter DCGM_EXPORTER_LISTEN=:"$DCGM_EXPORTER_PORT" \
  dcgm-exporter & ROLES+=("dcgm_exporter=$!"); "$PROFLLM" job wait --run "$RUN" --helpers "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }

# decode: nodes 0, GPUs 0,1, ready when /health answers on port 15000 + slot of the job
step --job-name=decode --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/decode-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=decode DYN_SYSTEM_PORT="$DECODE_PORT" VLLM_NIXL_SIDE_CHANNEL_HOST="$DECODE_ADDR" \
  VLLM_NIXL_SIDE_CHANNEL_PORT="$DECODE_NIXL_PORT" DYN_VLLM_KV_EVENT_PORT="$DECODE_EVENTS_PORT" \
  CUDA_VISIBLE_DEVICES=0,1 DYN_SYSTEM_ENABLED=true DYN_DISCOVERY_BACKEND=file DYN_REQUEST_PLANE=tcp \
  DYN_EVENT_PLANE=zmq DYN_FILE_KV=/shared/results/crucible_2026-03-04_05-06-07/shared/0/discovery \
  CUFILE_ENV_PATH_JSON=/shared/results/crucible_2026-03-04_05-06-07/shared/0/files/cufile.json \
  DYN_KVBM_LEADER_ZMQ_PUB_PORT="$DECODE_KVBM_PUB_PORT" DYN_KVBM_LEADER_ZMQ_ACK_PORT="$DECODE_KVBM_ACK_PORT" \
  DYN_KVBM_DISK_CACHE_DIR=/tmp/profllm-exp_20260304_050607_839421/kvbm \
  DYN_KVBM_METRICS_PORT="$DECODE_KVBM_METRICS_PORT" \
  python3 -m dynamo.vllm --model forge/hammer-9b --disaggregation-mode decode --tensor-parallel-size 2 \
  --trust-remote-code --no-enable-prefix-caching --hf-overrides '{"rope_scaling":{"factor":2.0}}' \
  --kv-transfer-config '{"kv_connector":"PdConnector","kv_connector_extra_config":{"connectors":[{"kv_connector":"DynamoConnector","kv_connector_module_path":"kvbm.vllm_integration.connector","kv_role":"kv_both"},{"kv_connector":"NixlConnector","kv_role":"kv_both"}]},"kv_connector_module_path":"kvbm.vllm_integration.connector","kv_role":"kv_both"}' \
  --no-enable-expert-parallel --served-lora 'a b' & ROLES+=("decode=$!")

# prefill: nodes 0, GPUs 2,3, ready when /health answers on port 15100 + slot of the job
step --job-name=prefill --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/prefill-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=prefill DYN_SYSTEM_PORT="$PREFILL_PORT" VLLM_NIXL_SIDE_CHANNEL_HOST="$PREFILL_ADDR" \
  VLLM_NIXL_SIDE_CHANNEL_PORT="$PREFILL_NIXL_PORT" DYN_VLLM_KV_EVENT_PORT="$PREFILL_EVENTS_PORT" \
  CUDA_VISIBLE_DEVICES=2,3 DYN_SYSTEM_ENABLED=true DYN_DISCOVERY_BACKEND=file DYN_REQUEST_PLANE=tcp \
  DYN_EVENT_PLANE=zmq DYN_FILE_KV=/shared/results/crucible_2026-03-04_05-06-07/shared/0/discovery \
  CUFILE_ENV_PATH_JSON=/shared/results/crucible_2026-03-04_05-06-07/shared/0/files/cufile.json \
  DYN_KVBM_LEADER_ZMQ_PUB_PORT="$PREFILL_KVBM_PUB_PORT" DYN_KVBM_LEADER_ZMQ_ACK_PORT="$PREFILL_KVBM_ACK_PORT" \
  DYN_KVBM_DISK_CACHE_DIR=/tmp/profllm-exp_20260304_050607_839421/kvbm \
  DYN_KVBM_METRICS_PORT="$PREFILL_KVBM_METRICS_PORT" \
  python3 -m dynamo.vllm --model forge/hammer-9b --disaggregation-mode prefill --tensor-parallel-size 2 \
  --kv-transfer-config '{"kv_connector":"PdConnector","kv_connector_extra_config":{"connectors":[{"kv_connector":"DynamoConnector","kv_connector_module_path":"kvbm.vllm_integration.connector","kv_role":"kv_both"},{"kv_connector":"NixlConnector","kv_role":"kv_both"}]},"kv_connector_module_path":"kvbm.vllm_integration.connector","kv_role":"kv_both"}' \
  --no-enable-expert-parallel --block-size 64 \
  --kv-events-config '{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:'"$PREFILL_EVENTS_PORT"'","enable_kv_cache_events":true}' & ROLES+=("prefill=$!")

# frontend: nodes 0, ready when /health answers on port 8000 + slot of the job
step --job-name=frontend --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/frontend-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=frontend DYN_DISCOVERY_BACKEND=file DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq \
  DYN_FILE_KV=/shared/results/crucible_2026-03-04_05-06-07/shared/0/discovery \
  python3 -m dynamo.frontend --router-mode kv --http-port "$FRONTEND_PORT" & ROLES+=("frontend=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase cold/load "$PROFLLM" job load --run "$RUN" --name cold
if [ "${PHASES[-1]}" = cold/load=0 ]; then
phase cold/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/cold/logs/bench-%t.log "${BENCH_COMMAND[@]}" \
  /opt/aiperf/bin/aiperf profile --model forge/hammer-9b --endpoint-type chat --streaming \
  --url http://"$FRONTEND_ADDR":"$FRONTEND_PORT" --concurrency 3 --extra-inputs '{"min_tokens":7}' \
  --request-count 33 \
  --artifact-dir /shared/results/crucible_2026-03-04_05-06-07/shared/0/cold/raw "${BENCH_OPTIONS[@]}"
phase cold/after-load step --job-name=after-load --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/cold/logs/after-load-%t.log "${BOX2[@]}" \
  bash -c 'curl -fsS $FRONTEND/clear || true'
fi

phase hot.2/load "$PROFLLM" job load --run "$RUN" --name hot.2
if [ "${PHASES[-1]}" = hot.2/load=0 ]; then
phase hot.2/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/hot.2/logs/bench-%t.log "${BENCH_COMMAND[@]}" \
  aiperf profile --model forge/hammer-9b --endpoint-type chat --url http://"$FRONTEND_ADDR":"$FRONTEND_PORT" \
  --concurrency 6 --extra-inputs '{"min_tokens":7}' --request-count 33 \
  --artifact-dir /shared/results/crucible_2026-03-04_05-06-07/shared/0/hot.2/raw "${BENCH_OPTIONS[@]}"
[ "${PHASES[-1]}" = hot.2/bench=0 ] || exit "${PHASES[-1]#*=}"
phase hot.2/eval step --job-name=eval --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/hot.2/logs/eval-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=client aiperf profile --model forge/hammer-9b --url http://"$FRONTEND_ADDR":"$FRONTEND_PORT" \
  --artifact-dir /shared/results/crucible_2026-03-04_05-06-07/shared/0/hot.2/raw/accuracy \
  --accuracy-benchmark mmlu
[ "${PHASES[-1]}" = hot.2/eval=0 ] || exit "${PHASES[-1]#*=}"
fi
