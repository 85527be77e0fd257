#!/bin/bash
#SBATCH --job-name=s.exp_1_b
#SBATCH --comment=profllm:exp_1_b
#SBATCH --output=/out/s/batches/1/stdout.txt
#SBATCH --error=/out/s/batches/1/stderr.txt
#SBATCH --open-mode=append
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --signal=B:TERM@90
#
# profllm v1: scenario s, 3 runs, one after the other in one allocation, batch exp_1_b.
# Printed from slurm/batch.sh.tmpl (sha256:30a9e8ea676f91ff428da0ba). runs.txt beside this script lists the run directories; each has its own script.

BATCH=/out/s/batches/1
PROFLLM=/bin/profllm
mapfile -t RUNS <"$BATCH/runs.txt" || exit 70
LIMITS=(1200 1200 1200) # seconds for each run; 0: none
CHILD=""  # pid of the run's script
ENDED=""  # set by TERM: the run flushes, no further one begins
WORST=0   # the highest exit code, which is the job's

trap 'ENDED=1; [ -z "$CHILD" ] || kill -TERM "$CHILD"' TERM INT

for i in "${!RUNS[@]}"; do
  run=${RUNS[i]}
  "$PROFLLM" job turn --run "$run" --batch "$BATCH"
  [ $? -ne 5 ] || continue # a run that it waits for has failed
  [ -z "$ENDED" ] || exit 143
  # In the foreground, so that only the script gets the signal and ends its steps itself: TERM if the job ends, XCPU at its limit.
  timeout --foreground --signal=XCPU --kill-after=60 "${LIMITS[i]}" bash "$run/job.sh" >>"$run/stdout.txt" 2>>"$run/stderr.txt" &
  CHILD=$!
  [ -z "$ENDED" ] || kill -TERM "$CHILD" # TERM came before its pid was known
  while wait "$CHILD"; code=$?; kill -0 "$CHILD" 2>/dev/null; do :; done
  CHILD=""
  echo "$run: exit code $code"
  # A script that was killed leaves its steps.
  [ "$code" -eq 70 ] || [ -e "$run/finish.json" ] || "$PROFLLM" job stop --run "$run"
  [ "$code" -le "$WORST" ] || WORST=$code
done
exit "$WORST"
