#!/usr/bin/env bash
# Prints the path of uv, which installs Python packages ten times as fast as pip: the one on PATH, or one that pip
# installs into a folder. uv takes the index of pip's settings.
#   uv=$(examples/uv.sh DIR)
set -euo pipefail
dir=$1
version=0.13.9
if command -v uv; then exit; fi
venv=$dir/uv-$version
if [[ ! -e $venv/.done ]]; then
	mkdir -p "$dir"
	python3 -m venv --clear "$venv"
	"$venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: "uv==$version" >&2
	index=$("$venv/bin/pip" config get global.index-url 2>/dev/null || true)
	index=${PIP_INDEX_URL:-$index}
	{
		echo '#!/bin/sh'
		echo 'export UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never'
		[[ -z $index ]] || printf 'export UV_DEFAULT_INDEX=%q\n' "$index"
		printf 'exec %q "$@"\n' "$venv/bin/uv"
	} >"$venv/run"
	chmod +x "$venv/run"
	touch "$venv/.done"
fi
echo "$venv/run"
