#!/bin/bash
#SBATCH --job-name=agg.2nodes.exp_20260304_050607_6e7a77
#SBATCH --comment=profllm:exp_20260304_050607_6e7a77
#SBATCH --output=/shared/results/sglang_2026-03-04_05-06-07/agg.2nodes/0/stdout.txt
#SBATCH --error=/shared/results/sglang_2026-03-04_05-06-07/agg.2nodes/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=batch
#SBATCH --account=research
#SBATCH --nodes=2
#SBATCH --gres=gpu:8
#SBATCH --time=00:30:00
#SBATCH --signal=B:TERM@90
#
# profllm v0.0.0-golden: scenario sglang, test agg.2nodes, iteration 0, run exp_20260304_050607_6e7a77.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   serve: nodes 0-1, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 8300 + slot of the job

RUN=/shared/results/sglang_2026-03-04_05-06-07/agg.2nodes/0
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
step --job-name=nodes --relative=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 \
  "$PROFLLM" job node --run "$RUN" --stay >nodes.txt &
GUARD=$!
"$PROFLLM" job env --run "$RUN" --guard="$GUARD" & wait $! || exit 71
# shellcheck source=/dev/null
. ./job.env
BOX=(--container-image=lmsysorg/sglang:v0.5.5
  '--container-mounts=/shared/results/sglang_2026-03-04_05-06-07/agg.2nodes/0:/cloudai_run_results,/shared/profllm:/cloudai_install,/shared/results/sglang_2026-03-04_05-06-07/agg.2nodes/0:/shared/results/sglang_2026-03-04_05-06-07/agg.2nodes/0,/shared/huggingface:/root/.cache/huggingface,/shared/huggingface:/shared/huggingface,/shared/profllm/bin/profllm:/shared/profllm/bin/profllm:ro,/shared/secrets/hf-token:/shared/secrets/hf-token:ro'
  '--container-env=NCCL_IB_TIMEOUT,HF_HOME,HF_HUB_CACHE' --no-container-mount-home --container-writable
  "$PROFLLM" job exec --run "$RUN" --file=HF_TOKEN=/shared/secrets/hf-token --) # words of several steps

# serve: nodes 0-1, GPUs 0,1,2,3,4,5,6,7, ready when /health answers on port 8300 + slot of the job
step --job-name=serve --relative=0 --nodes=2 --ntasks=2 --ntasks-per-node=1 --wait=5 --output="$RUN"/logs/serve-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=serve CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \
  "$PROFLLM" job rank --option=--node-rank --address=SGLANG_HOST_IP -- python3 -m sglang.launch_server \
  --model-path Qwen/Qwen3-32B --host 0.0.0.0 --port "$SERVE_PORT" --tp 8 --mem-fraction-static 0.75 \
  --disable-cuda-graph --dist-init-addr "$SERVE_ADDR":"$SERVE_DIST_PORT" --nnodes 2 & ROLES+=("serve=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bench-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=client python3 -m sglang.bench_serving --backend sglang \
  --base-url http://"$SERVE_ADDR":"$SERVE_PORT" --model Qwen/Qwen3-32B --dataset-name random --num-prompts 80 \
  --max-concurrency 16 --random-input-len 512 --random-output-len 64 --warmup-requests 2 --random-range-ratio 1 \
  --output-file /shared/results/sglang_2026-03-04_05-06-07/agg.2nodes/0/raw/sglang-bench.jsonl --output-details
