#!/usr/bin/env bash
# Records the answers of a real vLLM to requests.json into vllm-0.32.0/.
# Usage: record.sh MODEL_DIR, with vllm 0.32.0 (CPU build, with NIXL) on PATH. Takes about three minutes.
set -euo pipefail
cd "$(dirname "$0")"
model=$1
export HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_NO_USAGE_STATS=1
logs=$(mktemp -d)
pids=()
stop() {
	for p in "${pids[@]}"; do kill "$p" 2>/dev/null && wait "$p" || true; done
	pids=()
}
trap stop EXIT

# start PORT NAME [FLAG...]
start() {
	local port=$1 log=$logs/$2.log
	shift 2
	vllm serve "$model" --served-model-name tiny --load-format dummy --dtype float32 --enforce-eager \
		--max-model-len 2048 --max-num-seqs 16 --port "$port" --host 127.0.0.1 "$@" >"$log" 2>&1 &
	pids+=($!)
}
ready() {
	for _ in $(seq 300); do
		curl -sf "http://127.0.0.1:$1/health" >/dev/null && return
		sleep 1
	done
	echo "no server on port $1, see $logs" >&2
	return 1
}
record() { (cd .. && go test -count=1 -run '^TestRecord$' . -record "$1"); }

start 8410 serve
ready 8410
record serve=http://127.0.0.1:8410
stop

kv='{"kv_connector":"NixlConnector","kv_role":"kv_ROLE","kv_buffer_device":"cpu"}'
export VLLM_NIXL_SIDE_CHANNEL_HOST=127.0.0.1
VLLM_NIXL_SIDE_CHANNEL_PORT=5710 start 8411 prefill --kv-transfer-config "${kv/ROLE/producer}"
VLLM_NIXL_SIDE_CHANNEL_PORT=5720 start 8412 decode --kv-transfer-config "${kv/ROLE/consumer}"
ready 8411
ready 8412
record prefill=http://127.0.0.1:8411,decode=http://127.0.0.1:8412
stop
# Where the model lay says nothing about the answers.
grep -rlF "$model" vllm-0.32.0 | xargs -r sed -i "s|$model|/models/tiny|g"
