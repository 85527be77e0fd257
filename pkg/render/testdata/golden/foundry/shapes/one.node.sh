#!/bin/bash
#SBATCH --job-name=anvil-vllm.exp_20260304_050607_a28841
#SBATCH --comment=profllm:exp_20260304_050607_a28841
#SBATCH --output=/shared/results/shapes_2026-03-04_05-06-07/one.node/0/stdout.txt
#SBATCH --error=/shared/results/shapes_2026-03-04_05-06-07/one.node/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=anvil
#SBATCH --account=smiths
#SBATCH --distribution=block:cyclic
#SBATCH --nodes=1
#SBATCH --gres=gpu:6
#SBATCH --ntasks-per-node=3
#SBATCH --time=00:25:00
#SBATCH --signal=B:TERM@90
#SBATCH --requeue
#SBATCH --mail-type=FAIL
#
# profllm v0.0.0-golden: scenario shapes, test one.node, iteration 0, run exp_20260304_050607_a28841.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   serve: nodes 0, GPUs 2,3,4,5, ready when /health answers on port 8700 + slot of the job

RUN=/shared/results/shapes_2026-03-04_05-06-07/one.node/0
PROFLLM=/shared/profllm/bin/profllm
cd "$RUN" || exit 70
"$PROFLLM" job start --run "$RUN" || exit 70 # the program runs here; this job owns the run
unset BASH_ENV CONDA_DEFAULT_ENV CONDA_EXE CONDA_PREFIX CUDA_HOME CUDA_PATH PYTHONHOME PYTHONPATH ROCM_PATH VIRTUAL_ENV # of the submitting shell: containers would see them, where its paths mean nothing

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
export VLLM_LOGGING_LEVEL=INFO
export UCX_TLS='^sm'

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
BOX=('--container-image=registry.example#forge/vllm:2.1'
  '--container-mounts=/shared/results/shapes_2026-03-04_05-06-07/one.node/0:/cloudai_run_results,/forge/profllm:/cloudai_install,/shared/results/shapes_2026-03-04_05-06-07/one.node/0:/shared/results/shapes_2026-03-04_05-06-07/one.node/0,/forge/prompts:/prompts,/forge/scratch:/scratch,/forge/profllm/evals__release_7:/evals,/forge/profllm/tools__0123abc:/git/tools__0123abc,/forge/models/hf:/root/.cache/huggingface,/forge/models/hf:/forge/models/hf'
  '--container-env=NCCL_DEBUG,UCX_LOG_LEVEL,TUYERE_COUNT,HOT,BLAST,VLLM_LOGGING_LEVEL,UCX_TLS,HF_HOME,HF_HUB_CACHE'
  --container-mount-home --container-writable) # words of several steps

# serve: nodes 0, GPUs 2,3,4,5, ready when /health answers on port 8700 + slot of the job
step --job-name=serve --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/serve-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=serve CUDA_VISIBLE_DEVICES=2,3,4,5 VLLM_HOST_IP="$SERVE_ADDR" \
  vllm serve forge/hammer-9b --host 0.0.0.0 --enforce-eager --max-num-seqs 96 \
  --hf-overrides '{"rope_scaling":{"factor":2.0}}' --tensor-parallel-size 4 --seed 17 --port "$SERVE_PORT" & ROLES+=("serve=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bench-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=client vllm bench serve --model forge/hammer-9b --base-url http://"$SERVE_ADDR":"$SERVE_PORT" \
  --random-input-len 640 --random-output-len 48 --max-concurrency 12 --num-prompts 480 \
  --result-dir /shared/results/shapes_2026-03-04_05-06-07/one.node/0/raw --result-filename vllm-bench.json \
  --save-result --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,95,99 --temperature 0

phase eval step --job-name=eval --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/eval-%t.log "${BOX[@]}" \
  env PROFLLM_ROLE=client python3 /evals/gsm8k.py --host http://"$SERVE_ADDR" --port "$SERVE_PORT" \
  --num-questions 90 --save-results /shared/results/shapes_2026-03-04_05-06-07/one.node/0/raw/vllm-gsm8k.json
