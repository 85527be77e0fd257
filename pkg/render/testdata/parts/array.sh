#!/bin/bash
#SBATCH --job-name=s.exp_1_b
#SBATCH --comment=profllm:exp_1_b
#SBATCH --array=0-2%2
#SBATCH --output=/out/s/batches/1/stdout-%a.txt
#SBATCH --error=/out/s/batches/1/stderr-%a.txt
#SBATCH --open-mode=append
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --signal=B:TERM@90
#
# profllm v1: scenario s, 3 runs, a task for each, batch exp_1_b.
# Printed from slurm/batch.sh.tmpl (sha256:30a9e8ea676f91ff428da0ba). runs.txt beside this script lists the run directories; each has its own script.

BATCH=/out/s/batches/1
PROFLLM=/bin/profllm
mapfile -t RUNS <"$BATCH/runs.txt" || exit 70
run=${RUNS[${SLURM_ARRAY_TASK_ID:?runs as a task of an array}]:?no such task}
"$PROFLLM" --version >/dev/null || exit 70 # the program runs here
exec bash "$run/job.sh" >>"$run/stdout.txt" 2>>"$run/stderr.txt"
