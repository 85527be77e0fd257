#!/usr/bin/env bash
# Installs SGLang's load client, in two versions, and SGLang's routers, without the engine, which needs a GPU.
# Usage: install.sh [DIR]   (default: $SGLANG_LAB or ~/.cache/sglang-lab). About 1 minute, 0.5 GB. Idempotent.
# PyTorch, Transformers and the tiny model are those of ../vllm-lab, which is installed first if need be.
set -euo pipefail
dir=${1:-${SGLANG_LAB:-$HOME/.cache/sglang-lab}}
here=$(cd "$(dirname "$0")" && pwd)
# 0.5.5 has sglang.bench_serving; since 0.5.15 that name is deprecated for sglang.benchmark.serving.
versions=(0.5.5 0.5.23)
routers=(sglang-router==0.3.2 smg==1.13.0)
# What the clients import and vLLM does not bring.
others=(orjson==3.13.0 ipython==9.18.1 gguf==0.19.0 setproctitle fastapi uvicorn grpcio-health-checking)
vllm=${VLLM_LAB:-$HOME/.cache/vllm-lab}
"$here/../vllm-lab/install.sh" "$vllm" | tail -n 1 >/dev/null
base=$("$vllm/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$dir"
for version in "${versions[@]}"; do
	venv=$dir/venv-$version
	done=$venv/.done-$(cksum <<<"$version ${routers[*]} ${others[*]} $base" | cut -d' ' -f1)
	[[ -e $done ]] && continue
	python3 -m venv --clear "$venv"
	"$venv/bin/python" - "$base" <<'PY'
import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "vllm-lab.pth").write_text(sys.argv[1] + "\n")
PY
	pip=("$venv/bin/pip" install -q --disable-pip-version-check --no-compile)
	"${pip[@]}" "${others[@]}" "${routers[@]}"
	# Without its dependencies: they are for the engine, and need a GPU.
	"${pip[@]}" --no-deps "sglang==$version"
	touch "$done"
done
echo "SGLang's clients ${versions[*]}, ${routers[*]}"
echo "export SGLANG_LAB=$dir VLLM_LAB=$vllm HF_HUB_OFFLINE=1"
