#!/usr/bin/env bash
# Installs what the lab needs, from Debian; with --missing, it lists what is not installed instead.
set -euo pipefail
need=(slurmctld slurmd slurm-client munge iproute2)
[[ ${ACCT:-1} != 1 ]] || need+=(slurmdbd mariadb-server)
missing=()
for p in "${need[@]}"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
((${#missing[@]})) || exit 0
if [[ ${1:-} == --missing ]]; then
  printf '%s\n' "${missing[@]}"
  exit
fi
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
