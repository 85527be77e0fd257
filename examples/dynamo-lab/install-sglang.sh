#!/usr/bin/env bash
# Makes a virtual environment in which Dynamo's worker of SGLang runs on CPUs: Dynamo from that of install-vllm.sh, and
# SGLang 0.5.23 from ../sglang-lab. It installs nothing, and changes neither. Dynamo 1.6.1 is made for SGLang 0.5.21.
# Usage: install-sglang.sh [DIR]   (default: $DYNAMO_LAB or ~/.cache/dynamo-lab; the SGLang lab is $SGLANG_LAB or
# ~/.cache/sglang-lab). Seconds. Idempotent.
set -euo pipefail
dir=${1:-${DYNAMO_LAB:-$HOME/.cache/dynamo-lab}}
sglang=${SGLANG_LAB:-$HOME/.cache/sglang-lab}/venv-0.5.23
venv=$dir/sglang
if [[ ! -e $venv/.done ]]; then
	if [[ ! -x $dir/vllm/bin/python || ! -x $sglang/bin/python ]]; then
		echo "install-vllm.sh and ../sglang-lab/install.sh come first" >&2
		exit 1
	fi
	"$sglang/bin/python" -m venv --clear --without-pip "$venv"
	purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
	dynamo=$("$dir/vllm/bin/python" -c "$purelib")
	{
		echo "$dynamo"
		"$sglang/bin/python" -c "$purelib"
		cat "$dynamo/vllm-lab.pth"
	} >"$("$venv/bin/python" -c "$purelib")/labs.pth"
	"$venv/bin/python" -c 'import dynamo.sglang.main' >/dev/null 2>&1
	touch "$venv/.done"
fi
echo "SGLang 0.5.23"
echo "export DYNAMO_SGLANG=$venv"
