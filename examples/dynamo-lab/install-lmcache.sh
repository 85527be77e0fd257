#!/usr/bin/env bash
# Installs LMCache beside the worker of install-vllm.sh, in a virtual environment that takes everything else from the
# worker's and changes nothing there. LMCache 0.5.6 has no connector for CPUs inside of an engine; its server
# (`lmcache server`), a process of its own, moves blocks between CPUs.
# Usage: install-lmcache.sh [DIR]   (default: $DYNAMO_LAB or ~/.cache/dynamo-lab). Half a minute, 150 MB. Idempotent.
set -euo pipefail
dir=${1:-${DYNAMO_LAB:-$HOME/.cache/dynamo-lab}}
lmcache=0.5.6
worker=$dir/vllm
venv=$dir/lmcache
mark=$venv/.done-$lmcache
if [[ ! -e $mark ]]; then
	if [[ ! -x $worker/bin/python ]]; then
		echo "the worker comes first: install-vllm.sh" >&2
		exit 1
	fi
	"$worker/bin/python" -m venv --clear "$venv"
	purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
	site=$("$venv/bin/python" -c "$purelib")
	{
		"$worker/bin/python" -c "$purelib"
		cat "$("$worker/bin/python" -c "$purelib")/vllm-lab.pth"
	} >"$site/dynamo-vllm.pth"
	"$venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: --no-deps "lmcache==$lmcache" sortedcontainers \
		aiofile aiofiles caio nvtx awscrt
	"$venv/bin/python" -c 'import lmcache.integration.vllm.vllm_v1_adapter' >/dev/null 2>&1
	touch "$mark"
fi
echo "LMCache $lmcache"
echo "export DYNAMO_LMCACHE=$venv"
