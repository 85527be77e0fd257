#!/bin/bash
#SBATCH --job-name=crucible-dynamo.exp_20260304_050607_9d1e81
#SBATCH --comment=profllm:exp_20260304_050607_9d1e81
#SBATCH --output=/shared/results/crucible_2026-03-04_05-06-07/apart/0/stdout.txt
#SBATCH --error=/shared/results/crucible_2026-03-04_05-06-07/apart/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=batch
#SBATCH --account=research
#SBATCH --nodes=2
#SBATCH --gres=gpu:8
#SBATCH --time=00:40:00
#SBATCH --signal=B:TERM@90
#
# profllm v0.0.0-golden: scenario crucible, test apart, iteration 0, run exp_20260304_050607_9d1e81.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   etcd: nodes 0, ready when /health answers on port 2379 + slot of the job
#   lmcache_controller: nodes 0, not waited for
#   decode: nodes 0, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 15000 + slot of the job
#   prefill: nodes 1, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 15000 + slot of the job
#   frontend: nodes 0, ready when /health answers on port 8000 + slot of the job

RUN=/shared/results/crucible_2026-03-04_05-06-07/apart/0
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
step --job-name=nodes --relative=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 \
  "$PROFLLM" job node --run "$RUN" --stay >nodes.txt &
GUARD=$!
"$PROFLLM" job env --run "$RUN" --guard="$GUARD" & wait $! || exit 71
# shellcheck source=/dev/null
. ./job.env
BOX=('--container-image=registry.example#forge/dynamo-vllm:7'
  '--container-mounts=/shared/results/crucible_2026-03-04_05-06-07/apart/0:/cloudai_run_results,/shared/profllm:/cloudai_install,/shared/results/crucible_2026-03-04_05-06-07/apart/0:/shared/results/crucible_2026-03-04_05-06-07/apart/0,/run/udev:/run/udev,/scratch:/scratch,/shared/huggingface:/root/.cache/huggingface,/shared/huggingface:/shared/huggingface'
  '--container-env=NCCL_IB_TIMEOUT,UCX_TLS,HF_HOME,HF_HUB_CACHE' --no-container-mount-home --container-writable) # words of several steps
BOX2=('--container-image=registry.example#forge/dynamo-vllm:7'
  '--container-mounts=/shared/results/crucible_2026-03-04_05-06-07/apart/0:/cloudai_run_results,/shared/profllm:/cloudai_install,/shared/results/crucible_2026-03-04_05-06-07/apart/0:/shared/results/crucible_2026-03-04_05-06-07/apart/0,/run/udev:/run/udev,/scratch:/scratch,/shared/huggingface:/root/.cache/huggingface,/shared/huggingface:/shared/huggingface,/shared/profllm/bin/profllm:/shared/profllm/bin/profllm:ro,/shared/secrets/hf-token:/shared/secrets/hf-token:ro'
  '--container-env=NCCL_IB_TIMEOUT,UCX_TLS,HF_HOME,HF_HUB_CACHE' --no-container-mount-home --container-writable
  "$PROFLLM" job exec --run "$RUN" --file=HF_TOKEN=/shared/secrets/hf-token --) # words of several steps
BENCH_COMMAND=("${BOX2[@]}"
  env PROFLLM_ROLE=client bash
  -c '{ pip install --target /tmp/aiperf '\''aiperf==0.13.0'\''
} || exit; exec "$@"' bench) # words of several steps
BENCH_OPTIONS=(--server-metrics http://"$FRONTEND_ADDR":"$FRONTEND_PORT"/metrics http://"$DECODE_ADDR":"$DECODE_PORT"/metrics http://"$PREFILL_ADDR":"$PREFILL_PORT"/metrics
  --no-gpu-telemetry --ui none) # words of several steps

step --job-name=startup --relative=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 --wait=5 --output="$RUN"/logs/startup-%t.log \
  bash \
  -c 'mkdir -p /shared/results/crucible_2026-03-04_05-06-07/apart/0/runtime && export CLOUDAI_RUNTIME_FILE=/shared/results/crucible_2026-03-04_05-06-07/apart/0/runtime/"${SLURMD_NODENAME:-$(hostname)}".json || exit
nic=$(ls /sys/class/infiniband | head -n 1)
printf '\''{"LMCACHE_CONFIG_FILE": {"NIC": "%s"}}'\'' "$nic" >"$CLOUDAI_RUNTIME_FILE"
' & CLIENT=("startup=$!"); wait $! || { PHASES+=("startup=$?"); exit 1; }; CLIENT=() # before the servers

step --job-name=node_setup --relative=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 --wait=5 --output="$RUN"/logs/node_setup-%t.log "${BOX[@]}" \
  bash -c 'ls /dev/infiniband; true' & CLIENT=("node_setup=$!"); wait $!; CLIENT=() # before the servers

step --job-name=lmcache_storage --relative=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 --wait=5 --output="$RUN"/logs/lmcache_storage-%t.log "${BOX[@]}" \
  sh \
  -c 'mkdir -p -m 700 "$1" && [ -O "$1" ] && [ ! -L "$1" ] && mkdir -p "$1/$2" || { echo "$1 is no folder of this user" >&2; exit 1; }' lmcache_storage /scratch/profllm-exp_20260304_050607_9d1e81 lmcache & CLIENT=("lmcache_storage=$!"); wait $! || { PHASES+=("lmcache_storage=$?"); exit 1; }; CLIENT=() # before the servers

# etcd: nodes 0, ready when /health answers on port 2379 + slot of the job
step --job-name=etcd --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/etcd-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=etcd etcd --data-dir /shared/results/crucible_2026-03-04_05-06-07/apart/0/etcd \
  --listen-client-urls http://0.0.0.0:"$ETCD_PORT" --advertise-client-urls http://"$ETCD_ADDR":"$ETCD_PORT" \
  --listen-peer-urls http://127.0.0.1:"$ETCD_PEER_PORT" \
  --initial-advertise-peer-urls http://127.0.0.1:"$ETCD_PEER_PORT" \
  --initial-cluster default=http://127.0.0.1:"$ETCD_PEER_PORT" & ROLES+=("etcd=$!")

# lmcache_controller: nodes 0, not waited for
step --job-name=lmcache_controller --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/lmcache_controller-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=lmcache_controller lmcache_controller --port 9000 \
  --monitor-ports '{"pull":8300,"reply":8400}' & ROLES+=("lmcache_controller=$!"); "$PROFLLM" job wait --run "$RUN" --helpers "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }

# decode: nodes 0, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 15000 + slot of the job
step --job-name=decode --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/decode-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=decode DYN_SYSTEM_PORT="$DECODE_PORT" VLLM_NIXL_SIDE_CHANNEL_HOST="$DECODE_ADDR" \
  VLLM_NIXL_SIDE_CHANNEL_PORT="$DECODE_NIXL_PORT" DYN_VLLM_KV_EVENT_PORT="$DECODE_EVENTS_PORT" \
  CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 DYN_SYSTEM_ENABLED=true DYN_DISCOVERY_BACKEND=etcd DYN_REQUEST_PLANE=tcp \
  DYN_EVENT_PLANE=zmq ETCD_ENDPOINTS=http://"$ETCD_ADDR":"$ETCD_PORT" \
  LMCACHE_CONFIG_FILE=/shared/results/crucible_2026-03-04_05-06-07/apart/0/files/lmcache-config.yaml \
  CUFILE_ENV_PATH_JSON=/shared/results/crucible_2026-03-04_05-06-07/apart/0/files/cufile.json \
  "$PROFLLM" job localize --run /shared/results/crucible_2026-03-04_05-06-07/apart/0 -- python3 -m dynamo.vllm \
  --model forge/hammer-9b --disaggregation-mode decode --tensor-parallel-size 2 --trust-remote-code \
  --no-enable-prefix-caching --hf-overrides '{"rope_scaling":{"factor":2.0}}' \
  --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}' --no-enable-expert-parallel \
  --served-lora 'a b' & ROLES+=("decode=$!")

# prefill: nodes 1, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 15000 + slot of the job
step --job-name=prefill --relative=1 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/prefill-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=prefill DYN_SYSTEM_PORT="$PREFILL_PORT" VLLM_NIXL_SIDE_CHANNEL_HOST="$PREFILL_ADDR" \
  VLLM_NIXL_SIDE_CHANNEL_PORT="$PREFILL_NIXL_PORT" DYN_VLLM_KV_EVENT_PORT="$PREFILL_EVENTS_PORT" \
  CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 DYN_SYSTEM_ENABLED=true DYN_DISCOVERY_BACKEND=etcd DYN_REQUEST_PLANE=tcp \
  DYN_EVENT_PLANE=zmq ETCD_ENDPOINTS=http://"$ETCD_ADDR":"$ETCD_PORT" \
  LMCACHE_CONFIG_FILE=/shared/results/crucible_2026-03-04_05-06-07/apart/0/files/lmcache-config.yaml \
  CUFILE_ENV_PATH_JSON=/shared/results/crucible_2026-03-04_05-06-07/apart/0/files/cufile.json \
  "$PROFLLM" job localize --run /shared/results/crucible_2026-03-04_05-06-07/apart/0 -- python3 -m dynamo.vllm \
  --model forge/hammer-9b --disaggregation-mode prefill --tensor-parallel-size 2 \
  --kv-transfer-config '{"kv_connector":"MultiConnector","kv_role":"kv_both","kv_connector_extra_config":{"connectors":[{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"},{"kv_connector":"NixlConnector","kv_role":"kv_both"}]}}' \
  --no-enable-expert-parallel --block-size 64 \
  --kv-events-config '{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:'"$PREFILL_EVENTS_PORT"'","enable_kv_cache_events":true}' & ROLES+=("prefill=$!")

# frontend: nodes 0, ready when /health answers on port 8000 + slot of the job
step --job-name=frontend --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/frontend-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=frontend DYN_DISCOVERY_BACKEND=etcd DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq \
  ETCD_ENDPOINTS=http://"$ETCD_ADDR":"$ETCD_PORT" \
  python3 -m dynamo.frontend --router-mode kv --http-port "$FRONTEND_PORT" & ROLES+=("frontend=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase cold/load "$PROFLLM" job load --run "$RUN" --name cold
if [ "${PHASES[-1]}" = cold/load=0 ]; then
phase cold/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/cold/logs/bench-%t.log "${BENCH_COMMAND[@]}" \
  /opt/aiperf/bin/aiperf profile --model forge/hammer-9b --endpoint-type chat --streaming \
  --url http://"$FRONTEND_ADDR":"$FRONTEND_PORT" --concurrency 3 --extra-inputs '{"min_tokens":7}' \
  --request-count 33 \
  --artifact-dir /shared/results/crucible_2026-03-04_05-06-07/apart/0/cold/raw "${BENCH_OPTIONS[@]}"
phase cold/after-load step --job-name=after-load --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/cold/logs/after-load-%t.log "${BOX2[@]}" \
  bash -c 'curl -fsS $FRONTEND/clear || true'
fi

phase hot.2/load "$PROFLLM" job load --run "$RUN" --name hot.2
if [ "${PHASES[-1]}" = hot.2/load=0 ]; then
phase hot.2/bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/hot.2/logs/bench-%t.log "${BENCH_COMMAND[@]}" \
  aiperf profile --model forge/hammer-9b --endpoint-type chat --url http://"$FRONTEND_ADDR":"$FRONTEND_PORT" \
  --concurrency 6 --extra-inputs '{"min_tokens":7}' --request-count 33 \
  --artifact-dir /shared/results/crucible_2026-03-04_05-06-07/apart/0/hot.2/raw "${BENCH_OPTIONS[@]}"
[ "${PHASES[-1]}" = hot.2/bench=0 ] || exit "${PHASES[-1]#*=}"
phase hot.2/eval step --job-name=eval --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/hot.2/logs/eval-%t.log "${BOX2[@]}" \
  env PROFLLM_ROLE=client aiperf profile --model forge/hammer-9b --url http://"$FRONTEND_ADDR":"$FRONTEND_PORT" \
  --artifact-dir /shared/results/crucible_2026-03-04_05-06-07/apart/0/hot.2/raw/accuracy \
  --accuracy-benchmark mmlu
[ "${PHASES[-1]}" = hot.2/eval=0 ] || exit "${PHASES[-1]#*=}"
fi
