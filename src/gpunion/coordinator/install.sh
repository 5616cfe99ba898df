#!/bin/sh
# Makes this machine a node of the campus at @URL@:
#   curl -fsS @URL@/install.sh | sh -s -- --token TOKEN [words of `gpunion join`: --lab, --gpu, --notice, ...]
# As root it installs for the machine, as anybody else for that user. Run again it upgrades what is there.
set -eu

url="@URL@"
wheel="@WHEEL@"

say() { echo "gpunion: $*"; }
fail() {
  echo "gpunion: $*" >&2
  exit 1
}

usage="usage: install.sh --token TOKEN [--url URL] [--home DIR] [--state-dir DIR] [--no-service] [words of gpunion join ...]"
token="" home="" service=yes named=""
# The words for `gpunion join` go round to the end of the list; what is ours is taken out on the way.
left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  case "$word" in
    --token | --url | --home | --state-dir)
      [ "$left" -gt 0 ] || fail "$word needs a value. $usage"
      case "$word" in
        --token) token=$1 ;;
        --url) url=$1 ;;
        --home) home=$1 ;;
        --state-dir) GPUNION_STATE_DIR=$1 named=" --state-dir $1" ;;
      esac
      shift
      left=$((left - 1))
      ;;
    --no-service) service=no ;;
    -h | --help)
      say "$usage"
      exit 0
      ;;
    *) set -- "$@" "$word" ;;
  esac
done

# Where people's shells look for programs; one that is installed into a place of your own is yours to find.
bin=""
if [ "$(id -u)" = 0 ]; then
  [ -n "$home" ] || bin=/usr/local/bin
  home=${home:-/opt/gpunion} state=${GPUNION_STATE_DIR:-/var/lib/gpunion} scope=""
else
  [ -n "$home" ] || bin=$HOME/.local/bin
  home=${home:-$HOME/.local/share/gpunion} state=${GPUNION_STATE_DIR:-$HOME/.local/state/gpunion} scope="--user"
fi

python=""
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is not here. Install it (Debian, Ubuntu: apt install python3 python3-venv) and run this again."
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
  fail "$python cannot make virtual environments. On Debian or Ubuntu: apt install python3-venv, then run this again."
if [ -z "$token" ] && [ ! -f "$state/agent.toml" ]; then
  fail "there is no join token. Ask the campus operator for one (gpunion coordinator token). $usage"
fi

say "installing into $home with $("$python" --version 2>&1)"
mkdir -p "$home"
touch "$home/.installed-by-gpunion" # so that `gpunion leave --purge` may remove it
[ -x "$home/venv/bin/python" ] || "$python" -m venv "$home/venv"
fetched=$(mktemp -d)
trap 'rm -rf "$fetched"' EXIT
"$home/venv/bin/python" - "$url/install/$wheel" "$fetched/$wheel" <<'FETCH' || fail "the package cannot be fetched from $url"
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=60) as answer, open(sys.argv[2], "wb") as file:
    file.write(answer.read())
FETCH
# The same version may hold other code than the one that is here: the coordinator's is what counts.
"$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$fetched/$wheel[agent,cli,gpu]" ||
  fail "pip could not install it. Where packages come from is set in pip's own configuration."
"$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$fetched/$wheel"
gpunion="$home/venv/bin/gpunion" shown="$home/venv/bin/gpunion"
# `gpunion leave --purge` takes the link away. A program of that name that is not ours stays what it is.
if [ -n "$bin" ] && { [ ! -e "$bin/gpunion" ] || [ "$(readlink "$bin/gpunion")" = "$gpunion" ]; }; then
  if mkdir -p "$bin" && ln -sf "$gpunion" "$bin/gpunion"; then
    case ":$PATH:" in *":$bin:"*) shown=gpunion ;; esac
  fi
fi

if [ -f "$state/agent.toml" ]; then
  say "this machine has joined before; its terms and its name stay as they are"
else
  "$gpunion" join "$url" --token "$token" --state-dir "$state" --runtime auto "$@"
fi

if [ "$service" = yes ] && [ -d /run/systemd/system ]; then
  # shellcheck disable=SC2086  # empty or one word
  "$gpunion" agent install $scope --state-dir "$state"
else
  say "there is no systemd to start the agent (or you said --no-service). Start it yourself, now and after a boot:"
  say "  $gpunion agent --state-dir $state" # what starts it at a boot may look elsewhere than you
fi
say "who is on this machine, and how to have it back: $shown status$named"
