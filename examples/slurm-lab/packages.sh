#!/usr/bin/env bash
# Installs what the lab needs, from Debian.
set -euo pipefail
need=(slurmctld slurmd slurm-client munge iproute2)
[[ ${ACCT:-1} != 1 ]] || need+=(slurmdbd mariadb-server)
missing=()
for p in "${need[@]}"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
if ((${#missing[@]})); then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
