#!/usr/bin/env bash
# Prints what `vllm bench sweep serve` says that it would run: the commands that are compared with
# profllm's. Needs a vLLM on PATH.
cd "$(dirname "$0")" || exit 1
exec vllm bench sweep serve --dry-run --num-runs 2 --experiment-name recorded -o results \
  --serve-cmd "vllm serve tiny --port=8399 -tp 1 --max-num-seqs 4 --no-enable-prefix-caching --dtype 'float32' --max-model-len 2048" \
  --bench-cmd "vllm bench serve --model tiny --port 8399 --dataset-name random --random-input-len 32 --random-output-len 16 --ignore-eos --max-concurrency 2 --num-prompts=100" \
  --serve-params serve.json --bench-params bench.json "$@"
