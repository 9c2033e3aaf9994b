#!/usr/bin/env bash
# Makes all this project needs: uv, Python 3.13, the packages of requirements.lock, links for
# NeMo Gym's servers, a Chromium. Outside the clone only what the machine lacks is installed.
#
#   scripts/setup.sh          make or repair everything; prints nothing when nothing is to do
#   scripts/setup.sh doctor   show what is there; changes nothing
#   scripts/setup.sh uv       print the path of a uv, fetching a private one if there is none
#
# Needs bash 3.2 and a POSIX userland (macOS, Debian, Ubuntu and the like).
set -u
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
ROOT=$(pwd -P)

STATE=$ROOT/.setup
LOG=$STATE/setup.log
STAMP=$STATE/done          # line 1: key of what was set up; line 2: the Chromium
INSTALLING=$STATE/installing # there while packages are being installed
VENV=$ROOT/.venv
PYTHON=$VENV/bin/python
PTH=$VENV/lib/python3.13/site-packages/browser_gym.pth
COMMAND=$VENV/bin/browser-gym

# nemo-gym asks for 3.13.14 and runs on any 3.13, so packages are chosen for that one.
PACKAGES_FOR_PYTHON=3.13.14
UV_VERSION=0.13.9
OLDEST_UV_MINOR=8 # of 0.x
# Servers inside the nemo-gym package: those our stacks start beside our own, and models for
# `gym env start --model-type`.
NEMO_GYM_SERVERS="
environment_servers/legacy_agent
environment_servers/single_agent_turn_legacy
responses_api_agents/simple_agent
responses_api_models/openai_model
responses_api_models/vllm_model"

# ---------------------------------------------------------------------------- messages

say() { printf '[setup %3ds] %s\n' "$SECONDS" "$1" >&2; }

step() {
  say "$1"
  printf '\n== %s\n' "$1" >>"$LOG"
}

# Runs a command with its output in the log.
logged() {
  printf '+ %s\n' "$*" >>"$LOG"
  "$@" >>"$LOG" 2>&1 </dev/null
}

fail() {
  say "FAILED: $1"
  if [ -s "$LOG" ]; then
    printf 'Last lines of .setup/setup.log:\n' >&2
    tail -n 15 "$LOG" | sed 's/^/  | /' >&2
  fi
  exit 1
}

# ---------------------------------------------------------------------------- is it done?

server_folders() {
  local folder
  for folder in resources_servers/*/ responses_api_agents/*/ responses_api_models/*/; do
    case $folder in
      *'*'* | */__pycache__/) ;;
      *) printf '%s\n' "${folder%/}" ;;
    esac
  done
  # shellcheck disable=SC2086 # one word each
  printf '%s\n' $NEMO_GYM_SERVERS
}

# Everything a finished set-up depends on, the place of the clone too: an environment cannot move.
current_key() {
  {
    printf '%s\n' "$ROOT" "${BROWSER_GYM_CHROMIUM-}"
    server_folders
    cat requirements.lock pyproject.toml scripts/setup.sh
  } | cksum
}

links_are_there() {
  local folder
  for folder in $(server_folders); do
    [ -x ".venvs/$folder/.venv/bin/python" ] || return 1
  done
}

up_to_date() {
  local key chromium
  [ -f "$STAMP" ] || return 1
  { IFS= read -r key && IFS= read -r chromium; } <"$STAMP" || return 1
  [ "$key" = "$(current_key)" ] && [ -x "$PYTHON" ] && [ -f "$PTH" ] && [ -x "$COMMAND" ] &&
    [ -x "$chromium" ] && links_are_there
}

# ---------------------------------------------------------------------------- one at a time

take_lock() {
  if command -v flock >/dev/null 2>&1; then
    # Held by this process and its children, so it ends with them however they end.
    exec 9>"$STATE/lock"
    flock -n 9 && return
    say "Another set-up runs in this clone; waiting for it."
    flock 9
    return
  fi
  # macOS: a link is made at once with its content, the holder's process id.
  local holder told=
  echo $$ >"$STATE/lock.$$"
  until ln "$STATE/lock.$$" "$STATE/lock.pid" 2>/dev/null; do
    holder=$(cat "$STATE/lock.pid" 2>/dev/null)
    if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
      # Left behind. Move it away first: of two that get here, the later must not remove a new one.
      mv "$STATE/lock.pid" "$STATE/lock.old.$$" 2>/dev/null &&
        [ "$(cat "$STATE/lock.old.$$")" != "$holder" ] &&
        ln "$STATE/lock.old.$$" "$STATE/lock.pid" 2>/dev/null
      rm -f "$STATE/lock.old.$$"
      continue
    fi
    [ -n "$told" ] || say "Another set-up (process $holder) runs in this clone; waiting for it."
    told=yes
    sleep 1
  done
  rm -f "$STATE/lock.$$"
  trap 'rm -f "$STATE/lock.pid"' EXIT
}

# ---------------------------------------------------------------------------- Debian packages

may_use_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_has() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'; }

apt_lists_updated=
apt_update() {
  [ -n "$apt_lists_updated" ] || logged apt-get -o DPkg::Lock::Timeout=300 update 9>&-
  apt_lists_updated=yes
}

# The lock is closed for apt: a service that a package starts would hold it for good.
apt_install() {
  logged env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install \
    --yes --no-install-recommends "$@" 9>&-
}

# ---------------------------------------------------------------------------- Python and uv

# Whether $1 is a complete CPython 3.13 (self-built ones often lack a module) with its lock.
python_is_usable() {
  "$1" -c '
import sys, sysconfig
if sys.version_info[:2] != (3, 13) or sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(1)
import bz2, ctypes, lzma, sqlite3, ssl' >/dev/null 2>&1
}

# Prints the interpreter itself, where $1 may be a shim or lie in a virtual environment.
base_interpreter() { "$1" -c 'import sys; print(sys._base_executable)'; }

find_python() {
  local candidate
  for candidate in "$(command -v python3.13)" "$(command -v python3)" \
    "${PYENV_ROOT:-${HOME-}/.pyenv}"/versions/3.13*/bin/python \
    /opt/homebrew/bin/python3.13 /usr/local/bin/python3.13; do
    if [ -x "$candidate" ] && python_is_usable "$candidate"; then
      base_interpreter "$candidate"
      return
    fi
  done
  return 1
}

# Prints the Python that uv knows: one that it downloaded before or just now.
find_uv_python() {
  local found
  found=$("$UV" python find --python-preference only-managed 3.13 2>>"$LOG") &&
    python_is_usable "$found" && printf '%s\n' "$found"
}

make_python() {
  step "Get Python 3.13 with uv"
  logged "$UV" python install 3.13
  BASE_PYTHON=$(find_uv_python) && return
  if may_use_apt; then
    step "Get Python 3.13 from the distribution's packages"
    apt_update
    apt_has python3.13 && apt_install python3.13
    BASE_PYTHON=$(find_python) && return
  fi
  fail "there is no Python 3.13 and none could be fetched. Install one (for example with \
\`uv python install 3.13\`, \`pyenv install 3.13\`, \`brew install python@3.13\`, or from \
python.org) and run \`make setup\` again."
}

uv_is_usable() {
  local version
  version=$("$1" --version 2>/dev/null) || return 1
  case $version in
    'uv 0.'*)
      version=${version#uv 0.}
      [ "${version%%.*}" -ge "$OLDEST_UV_MINOR" ]
      ;;
    'uv '*) ;;
    *) return 1 ;;
  esac
}

find_uv() {
  local candidate
  for candidate in "$(command -v uv)" "${HOME-}/.local/bin/uv" "${HOME-}/.cargo/bin/uv" \
    "$STATE/uv/bin/uv"; do
    if [ -x "$candidate" ] && uv_is_usable "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

# Nothing outside .setup/uv is touched, whatever the user's pip settings say.
make_uv_with_pip() {
  logged env PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "$1" -m pip install --quiet --upgrade --target "$STATE/uv" "uv==$UV_VERSION" ||
    { logged "$1" -m venv --clear "$STATE/uv" &&
      logged "$STATE/uv/bin/python" -m pip install --quiet "uv==$UV_VERSION"; }
  uv_is_usable "$STATE/uv/bin/uv"
}

make_uv() {
  local python installer
  step "Get uv $UV_VERSION"
  for python in "$(command -v python3)" /usr/bin/python3 "${BASE_PYTHON-}"; do
    [ -x "$python" ] && make_uv_with_pip "$python" && return
  done
  installer=https://astral.sh/uv/$UV_VERSION/install.sh
  { logged curl -fsSL -o "$STATE/uv-install.sh" "$installer" ||
    logged wget -q -O "$STATE/uv-install.sh" "$installer"; } &&
    logged env UV_UNMANAGED_INSTALL="$STATE/uv/bin" sh "$STATE/uv-install.sh" &&
    uv_is_usable "$STATE/uv/bin/uv" && return
  if may_use_apt; then
    step "Get pip from the distribution's packages, to get uv"
    apt_update
    apt_install python3 python3-pip && make_uv_with_pip /usr/bin/python3 && return
  fi
  fail "uv could not be fetched. Install it (for example with \`pip install uv\` or \
\`brew install uv\`) and run \`make setup\` again."
}

get_uv() { UV=$(find_uv) || { make_uv && UV=$STATE/uv/bin/uv; }; }

# ---------------------------------------------------------------------------- the environment

venv_is_usable() {
  [ ! -e "$INSTALLING" ] && [ "$(cat "$PTH" 2>/dev/null)" = "$ROOT" ] &&
    python_is_usable "$PYTHON"
}

make_environment() {
  BASE_PYTHON=$(find_python)
  get_uv
  if ! venv_is_usable; then
    [ -n "$BASE_PYTHON" ] || BASE_PYTHON=$(find_python) || BASE_PYTHON=$(find_uv_python) ||
      make_python
    step "Make .venv with $("$BASE_PYTHON" --version) ($BASE_PYTHON)"
    # From scratch: what is left of an interrupted or moved environment cannot be trusted.
    logged rm -rf "$VENV"
    logged "$UV" venv --python "$BASE_PYTHON" "$VENV" || fail "the environment could not be made."
    printf '%s\n' "$ROOT" >"$PTH"
  fi
  step "Install the packages of requirements.lock"
  touch "$INSTALLING"
  logged "$UV" pip sync --python "$PYTHON" --python-version "$PACKAGES_FOR_PYTHON" \
    requirements.lock || fail "the packages could not be installed."
  step "Import and compile what the servers use"
  # Else the servers of a first run, started together, each compile the same files for long.
  logged env -u PYTHONDONTWRITEBYTECODE "$PYTHON" -c '
import nemo_gym.base_resources_server, nemo_gym.base_responses_api_agent
import nemo_gym.base_responses_api_model, nemo_gym.cli.main
import playwright.async_api, ray.dashboard.agent, ray.dashboard.dashboard' ||
    fail "the packages were installed but do not import."
  rm -f "$INSTALLING"
}

# -P: a folder the command is called in may hold another package of that name.
make_command() {
  {
    printf '#!/bin/sh\n'
    printf 'exec "$(dirname "$0")/python" -P -m browser_gym "$@"\n'
  } >"$COMMAND"
  logged chmod +x "$COMMAND" || fail "$COMMAND could not be written."
}

# NeMo Gym looks for each server's environment in .venvs; all share the one we made.
link_servers() {
  local folder
  step "Link the servers' environments"
  for folder in $(server_folders); do
    logged mkdir -p ".venvs/$folder"
    [ -L ".venvs/$folder/.venv" ] || logged rm -rf ".venvs/$folder/.venv"
    logged ln -sfn ../../../.venv ".venvs/$folder/.venv" || fail "$folder could not be linked."
  done
}

# ---------------------------------------------------------------------------- Chromium

# Prints the executable, and to the log why there is none.
find_chromium() {
  "$PYTHON" -c '
import sys
from resources_servers.browser_gym.browser.chromium import ChromiumNotFound, find_chromium
try:
    print(find_chromium().executable)
except ChromiumNotFound as error:
    sys.exit(str(error))' 2>>"$LOG"
}

# Playwright brings its own node, which needs a library that a minimal Debian lacks.
check_playwright() {
  step "Check that Playwright starts"
  logged "$PYTHON" -m playwright --version && return
  if may_use_apt; then
    apt_update
    apt_install libatomic1
    logged "$PYTHON" -m playwright --version && return
  fi
  fail "Playwright does not start. On Debian and Ubuntu: sudo apt-get install libatomic1"
}

get_chromium() {
  step "Find a Chromium"
  CHROMIUM=$(find_chromium) && return
  [ -z "${BROWSER_GYM_CHROMIUM-}" ] || fail "BROWSER_GYM_CHROMIUM=$BROWSER_GYM_CHROMIUM is not \
a Chromium that starts."
  step "Download Playwright's Chromium"
  logged "$PYTHON" -m playwright install chromium-headless-shell
  CHROMIUM=$(find_chromium) && return
  if may_use_apt; then
    step "Install a Chromium from the distribution's packages"
    apt_update
    if apt_has chromium-headless-shell; then
      apt_install chromium-headless-shell fonts-liberation
    elif apt_has chromium; then
      apt_install chromium fonts-liberation
    else
      # Ubuntu has no such package; the download works once its libraries are there.
      logged "$PYTHON" -m playwright install-deps chromium-headless-shell 9>&-
    fi
    CHROMIUM=$(find_chromium) && return
  fi
  fail "there is no Chromium that starts, and none could be fetched. Do one of these and run \
\`make setup\` again:
  - Debian: sudo apt-get install chromium-headless-shell fonts-liberation
  - Ubuntu: sudo .venv/bin/python -m playwright install-deps chromium-headless-shell
  - macOS: brew install --cask google-chrome
  - anywhere: BROWSER_GYM_CHROMIUM=/path/to/a/chromium"
}

# ---------------------------------------------------------------------------- commands

set_up() {
  up_to_date && return
  mkdir -p "$STATE" || exit 1
  take_lock
  up_to_date && return
  : >"$LOG"
  rm -f "$STAMP"
  make_environment
  make_command
  link_servers
  check_playwright
  get_chromium
  printf '%s\n' "$(current_key)" "$CHROMIUM" >"$STAMP.new" && mv "$STAMP.new" "$STAMP"
  say "Ready. Chromium: $CHROMIUM"
}

report_without_environment() {
  local name found
  printf 'The environment is not complete: run "make setup". It will use:\n'
  found=$(find_uv) || found="none; make setup fetches one into .setup"
  printf '  %-12s %s\n' uv "$found"
  found=$(find_python) || found="none found; make setup tries uv's download, then apt-get as root"
  printf '  %-12s %s\n' "Python 3.13" "$found"
  found=${BROWSER_GYM_CHROMIUM-}
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    [ -n "$found" ] || found=$(command -v "$name")
  done
  [ -n "$found" ] ||
    found="none on PATH; make setup tries Playwright's download, then apt-get as root"
  printf '  %-12s %s\n' Chromium "$found"
}

case ${1-} in
  '') set_up ;;
  uv)
    mkdir -p "$STATE" && BASE_PYTHON=$(find_python)
    get_uv && printf '%s\n' "$UV"
    ;;
  doctor)
    if [ ! -e "$INSTALLING" ] &&
      "$PYTHON" -c 'import playwright, psutil, rich, yaml' 2>/dev/null; then
      exec "$PYTHON" scripts/doctor.py
    fi
    report_without_environment
    exit 1
    ;;
  *)
    printf 'usage: scripts/setup.sh [doctor|uv]\n' >&2
    exit 2
    ;;
esac
