#!/bin/bash
#SBATCH --job-name=vllm.exp_20260304_050607_cdb07a
#SBATCH --comment=profllm:exp_20260304_050607_cdb07a
#SBATCH --output=/shared/results/topologies_2026-03-04_05-06-07/agg.ray.4nodes/0/stdout.txt
#SBATCH --error=/shared/results/topologies_2026-03-04_05-06-07/agg.ray.4nodes/0/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=gpu
#SBATCH --nodes=4
#SBATCH --gres=gpu:4
#SBATCH --time=00:10:00
#SBATCH --signal=B:TERM@90
#
# profllm v0.0.0-golden: scenario topologies, test agg.ray.4nodes, iteration 0, run exp_20260304_050607_cdb07a.
# Printed from slurm/job.sh.tmpl (sha256:1f3eaef7a69733f9e9472fab); plan.json in the run directory has every decision.
#   serve: nodes 0-3, GPUs 0,1,2,3, ready when /health answers on port 8300 + slot of the job

RUN=/shared/results/topologies_2026-03-04_05-06-07/agg.ray.4nodes/0
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
step --job-name=nodes --relative=0 --nodes=4 --ntasks=4 --ntasks-per-node=1 \
  "$PROFLLM" job node --run "$RUN" --stay >nodes.txt &
GUARD=$!
"$PROFLLM" job env --run "$RUN" --guard="$GUARD" & wait $! || exit 71
# shellcheck source=/dev/null
. ./job.env

# serve: nodes 0-3, GPUs 0,1,2,3, ready when /health answers on port 8300 + slot of the job
step --job-name=serve --relative=0 --nodes=4 --ntasks=4 --ntasks-per-node=1 --wait=5 --output="$RUN"/logs/serve-%t.log \
  env PROFLLM_ROLE=serve CUDA_VISIBLE_DEVICES=0,1,2,3 \
  "$PROFLLM" job ray --nodes 4 --head "$SERVE_ADDR" --port "$SERVE_RAY_PORT" --timeout 15m0s \
  --head-arg=--num-gpus=4 --worker-arg=--num-gpus=4 -- vllm serve Qwen/Qwen3-8B --host 0.0.0.0 \
  --tensor-parallel-size 4 --pipeline-parallel-size 4 --port "$SERVE_PORT" --distributed-executor-backend ray & ROLES+=("serve=$!")

"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}" & wait $! || { PHASES+=("ready=1"); exit 1; }
PHASES+=("ready=0")

phase bench step --job-name=bench --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/bench-%t.log \
  env PROFLLM_ROLE=client vllm bench serve --model Qwen/Qwen3-8B --base-url http://"$SERVE_ADDR":"$SERVE_PORT" \
  --random-input-len 1024 --random-output-len 128 --max-concurrency 32 --num-prompts 160 \
  --result-dir /shared/results/topologies_2026-03-04_05-06-07/agg.ray.4nodes/0/raw \
  --result-filename vllm-bench.json --save-result --percentile-metrics ttft,tpot,itl,e2el \
  --metric-percentiles 50,90,95,99 --temperature 0

phase eval step --job-name=eval --relative=0 --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$RUN"/logs/eval-%t.log \
  env PROFLLM_ROLE=client python3 /opt/vllm/tests/evals/gsm8k/gsm8k_eval.py --host http://"$SERVE_ADDR" \
  --port "$SERVE_PORT" --num-questions 200 \
  --save-results /shared/results/topologies_2026-03-04_05-06-07/agg.ray.4nodes/0/raw/vllm-gsm8k.json
