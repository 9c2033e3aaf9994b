#!/usr/bin/env bash
# Makes cache/envs/verl: Python 3.11 with verl 0.9.1 and what its tests on a CPU import. Does
# nothing if that is there.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ENVIRONMENT=$PWD/cache/envs/verl
STAMP=$ENVIRONMENT/made
KEY=$(cat recipes/verl/requirements.txt recipes/verl/make_environment.sh | cksum)
if [ "$(cat "$STAMP" 2>/dev/null)" = "$KEY" ]; then exit; fi

uv=$(bash scripts/setup.sh uv)
python=
for candidate in "$(command -v python3.11)" \
  "${PYENV_ROOT:-${HOME-}/.pyenv}"/versions/3.11*/bin/python; do
  if "$candidate" -c 'import sys, ctypes, lzma, sqlite3, ssl; sys.exit(sys.version_info[:2] != (3, 11))' \
    2>/dev/null; then
    python=$candidate
    break
  fi
done
rm -rf "$ENVIRONMENT"
"$uv" venv --quiet --python "${python:-3.11}" "$ENVIRONMENT"
# pip knows of wheels on this machine, such as a torch without CUDA; uv must be told.
[ -z "${PIP_FIND_LINKS-}" ] || export UV_FIND_LINKS=$PIP_FIND_LINKS
install() { "$uv" pip install --quiet --python "$ENVIRONMENT/bin/python" "$@"; }
install --no-deps verl==0.9.1
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
echo 'torch==2.13.0+cpu' >"$constraints"
install --requirements recipes/verl/requirements.txt --constraints "$constraints" 2>/dev/null ||
  install --requirements recipes/verl/requirements.txt
# torchvision comes built for CUDA: beside a torch without, some of its operators do not exist, and
# it must not describe them.
"$ENVIRONMENT/bin/python" -c 'import torchvision' 2>/dev/null ||
  sed -i.orig 's/^@torch.library.register_fake(/# &/' \
    "$ENVIRONMENT"/lib/python3.11/site-packages/torchvision/_meta_registrations.py
"$ENVIRONMENT/bin/python" -c 'import torchvision, verl.trainer.ppo.v1' 2>/dev/null ||
  { "$ENVIRONMENT/bin/python" -c 'import torchvision, verl.trainer.ppo.v1'; exit 1; }
printf '%s\n' "$KEY" >"$STAMP"
