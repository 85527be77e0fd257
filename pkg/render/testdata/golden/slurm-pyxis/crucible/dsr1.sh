#!/bin/bash
#SBATCH --job-name=dsr1.exp_20260304_050607_e443fb
#SBATCH --comment=profllm:exp_20260304_050607_e443fb
#SBATCH --output=/shared/results/crucible_2026-03-04_05-06-07/dsr1/0/stdout.txt
#SBATCH --error=/shared/results/crucible_2026-03-04_05-06-07/dsr1/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=batch
#SBATCH --account=research
#SBATCH --nodes=4
#SBATCH --gres=gpu:8
#SBATCH --time=00:40:00
#SBATCH --signal=B:TERM@90
#
# profllm v0.0.0-golden: scenario crucible, test dsr1, iteration 0, run exp_20260304_050607_e443fb.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   etcd: nodes 0, ready when /health answers on port 2379 + slot of the job
#   decode: nodes 0-1, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 15000 + slot of the job
#   prefill: nodes 2-3, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 15000 + slot of the job
#   frontend: nodes 0, ready when /health answers on port 8000 + slot of the job

RUN=/shared/results/crucible_2026-03-04_05-06-07/dsr1/0
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
BOX=('--container-image=registry.example#forge/dynamo-sglang:7'
  '--container-mounts=/shared/results/crucible_2026-03-04_05-06-07/dsr1/0:/cloudai_run_results,/shared/profllm:/cloudai_install,/shared/results/crucible_2026-03-04_05-06-07/dsr1/0:/shared/results/crucible_2026-03-04_05-06-07/dsr1/0,/shared/huggingface:/root/.cache/huggingface,/shared/huggingface:/shared/huggingface,/shared/profllm/bin/profllm:/shared/profllm/bin/profllm:ro,/shared/secrets/hf-token:/shared/secrets/hf-token:ro'
  '--container-env=NCCL_IB_TIMEOUT,HF_HOME,HF_HUB_CACHE' --no-container-mount-home --container-writable
  "$PROFLLM" job exec --run "$RUN" --file=HF_TOKEN=/shared/secrets/hf-token --) # words of several steps

# etcd: nodes 0, ready when /health answers on port 2379 + slot of the job
step --job-name=etcd --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/etcd-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=etcd etcd --data-dir /shared/results/crucible_2026-03-04_05-06-07/dsr1/0/etcd \
  --listen-client-urls http://0.0.0.0:"$ETCD_PORT" --advertise-client-urls http://"$ETCD_ADDR":"$ETCD_PORT" \
  --listen-peer-urls http://127.0.0.1:"$ETCD_PEER_PORT" \
  --initial-advertise-peer-urls http://127.0.0.1:"$ETCD_PEER_PORT" \
  --initial-cluster default=http://127.0.0.1:"$ETCD_PEER_PORT" & ROLES+=("etcd=$!"); "$PROFLLM" job wait --run "$RUN" --helpers "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }

# decode: nodes 0-1, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 15000 + slot of the job
step --job-name=decode --relative=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 --wait=5 --output="$RUN"/logs/decode-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=decode DYN_SYSTEM_PORT="$DECODE_PORT" CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \
  DYN_SYSTEM_ENABLED=true DYN_DISCOVERY_BACKEND=etcd DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq \
  ETCD_ENDPOINTS=http://"$ETCD_ADDR":"$ETCD_PORT" \
  "$PROFLLM" job rank --option=--node-rank --address=SGLANG_HOST_IP -- python3 -m dynamo.sglang \
  --model-path forge/anvil-671b --served-model-name forge/anvil-671b --disaggregation-mode decode --tp-size 16 \
  --dp-size 16 --enable-dp-attention --dist-init-addr "$DECODE_ADDR":"$DECODE_MEET_PORT" --nnodes 2 & ROLES+=("decode=$!")

# prefill: nodes 2-3, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 15000 + slot of the job
step --job-name=prefill --relative=2 --nodes=2 --ntasks=2 --ntasks-per-node=1 --wait=5 --output="$RUN"/logs/prefill-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=prefill DYN_SYSTEM_PORT="$PREFILL_PORT" CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \
  DYN_SYSTEM_ENABLED=true DYN_DISCOVERY_BACKEND=etcd DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq \
  ETCD_ENDPOINTS=http://"$ETCD_ADDR":"$ETCD_PORT" \
  "$PROFLLM" job rank --option=--node-rank --address=SGLANG_HOST_IP -- python3 -m dynamo.sglang \
  --model-path forge/anvil-671b --served-model-name forge/anvil-671b --disaggregation-mode prefill --tp-size 16 \
  --dp-size 16 --enable-dp-attention --disaggregation-bootstrap-port "$PREFILL_BOOTSTRAP_PORT" \
  --port "$PREFILL_OWN_PORT" --dist-init-addr "$PREFILL_ADDR":"$PREFILL_MEET_PORT" --nnodes 2 & ROLES+=("prefill=$!")

# frontend: nodes 0, ready when /health answers on port 8000 + slot of the job
step --job-name=frontend --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/frontend-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=frontend DYN_DISCOVERY_BACKEND=etcd DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq \
  ETCD_ENDPOINTS=http://"$ETCD_ADDR":"$ETCD_PORT" \
  python3 -m dynamo.frontend --http-port "$FRONTEND_PORT" & ROLES+=("frontend=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bench-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=client aiperf profile --model forge/anvil-671b --endpoint-type chat --streaming \
  --url http://"$FRONTEND_ADDR":"$FRONTEND_PORT" --request-count 10 \
  --artifact-dir /shared/results/crucible_2026-03-04_05-06-07/dsr1/0/raw --no-server-metrics --no-gpu-telemetry \
  --ui none
[ "${PHASES[-1]}" = bench=0 ] || exit "${PHASES[-1]#*=}"
