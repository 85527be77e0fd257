#!/usr/bin/env bash
# Saves an image of this machine's store as DIR/NAME-TAG.tar.gz, which the launchers docker and podman run.
# ENGINE=podman saves from Podman's store.
set -euo pipefail
image=${1:?usage: save.sh NAME[:TAG] [DIR]}
dir=${2:-.}
name=${image##*/}
[[ $name == *:* ]] || { name+=:latest; image+=:latest; }
file=$dir/${name/:/-}.tar.gz
compress=gzip
if command -v pigz >/dev/null; then compress=pigz; fi
partial=$(mktemp "$dir/.${name/:/-}.XXXXXX")
trap 'rm -f "$partial"' EXIT
"${ENGINE:-docker}" save "$image" | "$compress" >"$partial"
chmod 644 "$partial"
mv "$partial" "$file"
echo "$file"
