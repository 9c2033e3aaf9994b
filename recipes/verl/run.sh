#!/usr/bin/env bash
# Trains with verl on this machine's GPUs, against an environment that runs already:
#   BROWSER_GYM_URL=http://HOST:PORT recipes/verl/run.sh [key=value …]
# Run it with verl's Python (3.10 to 3.12, verl 0.9.1 with vLLM, and orjson) first on PATH.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${BROWSER_GYM_URL:?the address of the environment, as gym env start prints it}"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
export VERL_USE_EXTERNAL_MODULES=recipes.verl.advantage
exec python -m verl.trainer.main_ppo \
  --config-path "$PWD/recipes/verl" --config-name browser_gym_grpo "$@"
