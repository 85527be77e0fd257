#!/usr/bin/env bash
# Installs NVIDIA Dynamo (frontend, router and the mocker, its engine without a GPU) and AIPerf, each into a virtual
# environment, and a tokenizer. Usage: install.sh [DIR]   (default: $DYNAMO_LAB or ~/.cache/dynamo-lab). About
# a minute, 2 GB. Idempotent. etcd and nats-server come from the distribution.
set -euo pipefail
dir=${1:-${DYNAMO_LAB:-$HOME/.cache/dynamo-lab}}
here=$(cd "$(dirname "$0")" && pwd)
dynamo=1.6.1
aiperf=0.13.0
mkdir -p "$dir"

# into VENV REQUIREMENT…: a virtual environment that is made anew for another list.
into() {
	local venv=$dir/$1 mark
	shift
	mark=$venv/.done-$(cksum <<<"$*" | cut -d' ' -f1)
	[[ ! -e $mark ]] || return 0
	"$uv" venv -q --clear "$venv"
	"$uv" pip install -q --python "$venv/bin/python" --only-binary :all: "$@"
	touch "$mark"
}
uv=$("$here/../uv.sh" "$dir")
# Without ai-dynamo's own dependencies: of those, aisimulate has no wheel, and only estimates of GPUs need it.
into dynamo "ai-dynamo-runtime==$dynamo" 'kubernetes<33' 'pydantic<=2.13.5' 'redis<9' aiohttp msgspec prometheus-client \
	pyzmq tqdm transformers uvloop zstandard
[[ -e $dir/dynamo/.dynamo-$dynamo ]] || "$uv" pip install -q --python "$dir/dynamo/bin/python" --no-deps "ai-dynamo==$dynamo"
touch "$dir/dynamo/.dynamo-$dynamo"
into aiperf "aiperf==$aiperf"
mkdir -p "$dir/bin"
ln -sf ../aiperf/bin/aiperf "$dir/bin/aiperf"
[[ -e $dir/tiny/config.json ]] || "$dir/dynamo/bin/python" "$here/../vllm-lab/model.py" "$dir/tiny" 2>/dev/null
echo "Dynamo $dynamo, AIPerf $aiperf"
echo "export DYNAMO_LAB=$dir"
