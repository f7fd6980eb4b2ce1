# Sourced: runs claims one by one, a line each, in a folder of their own.
# shellcheck shell=bash
set -euo pipefail

: "${AWS_ENDPOINT_URL:?}" "${AWS_ACCESS_KEY_ID:?}" "${AWS_SECRET_ACCESS_KEY:?}"
wanted=${1:-} # only the claims with this in their text
failed=0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'exec 4>&-; wait; rm -rf "$folder"' EXIT # ends start_once
cd "$folder"

# claim TEXT FUNCTION: the function's first command that fails makes the claim fail.
claim() {
  local said code
  case $1 in *"$wanted"*) ;; *) return 0 ;; esac
  # Not in an `if`: there, bash would forget -e inside of the function, too.
  set +e
  said=$(set -e && "$2" 2>&1)
  code=$?
  set -e
  if [ "$code" = 0 ]; then
    printf 'ok %s\n' "$1"
  elif [ "$code" = 77 ]; then
    printf 'skipped %s: %s\n' "$1" "${said##*$'\n'}"
  else
    printf 'FAILED %s: %s\n' "$1" "$(tail -n 30 <<<"$said")"
    failed=$((failed + 1))
  fi
}

# start_once PROGRAM MODULE...: the commands of a program in Python share one start and the import of
# these modules, which take longer than most commands. Without /proc, each starts by itself.
start_once() {
  [ -d /proc/self/fd ] || return 0
  mkfifo "$folder/callers" "$folder/codes"
  python3 "$here/start_once.py" "$(command -v "$1")" "$folder/command" "${@:2}" \
    <"$folder/callers" >"$folder/codes" &
  exec 4>"$folder/callers" 5<"$folder/codes"
  eval "$1() { called \"\$@\"; }"
}

# called ARGUMENT...: a command of that program, with its code. There is never more than one. Its input
# and output are those of this shell, so that no redirection here may take their place.
called() {
  local name code caller=$BASHPID
  {
    printf '%s\0' $# "$@"
    for name in ${!AWS_@}; do printf '%s\0' "$name=${!name}"; done
  } >"$folder/command"
  (printf '%s\n' "$caller" >&4)
  read -r -u 5 code || return 1
  return "$code"
}

# Only with TLS in front of the endpoint; 77 is for what cannot be tried.
need_tls() {
  [ -n "${S3_TLS_ENDPOINT:-}" ] || { printf 'S3_TLS_ENDPOINT is not set\n' && exit 77; }
}

# prints TEXT COMMAND: it must succeed, and print this.
prints() {
  local wanted=$1 got
  shift
  got=$("$@") || return 1 # an assignment; bash forgets the code of a $() among arguments
  [ "$got" = "$wanted" ] || { printf 'got:\n%s\nwanted:\n%s\n' "$got" "$wanted" && return 1; }
}

# without PATTERN FILE: no line of the file may match. A plain ! would not end a claim.
without() {
  if grep -- "$1" "$2"; then return 1; fi
}

# What a client gets that knows nothing of S3.
fetch() {
  python3 - "$1" <<'PYTHON'
import sys, urllib.request
sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())
PYTHON
}

# The command must fail, and say this.
refused() {
  local code=$1 said
  shift
  if said=$("$@" 2>&1); then
    printf 'accepted, though %s was due: %s\n' "$code" "$said"
    return 1
  fi
  case $said in
    *"$code"*) ;;
    *) printf 'refused, but not with %s: %s\n' "$code" "$said" && return 1 ;;
  esac
}

# make_files NAME SIZE...: the same bytes in every run.
make_files() {
  python3 - "$@" <<'PYTHON'
import os, random, sys
for name, size in zip(sys.argv[1::2], sys.argv[2::2]):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as file:
        file.write(random.Random(7).randbytes(int(size)))
PYTHON
}

# A tree with names that need care.
make_tree() {
  local big=9000000 # more than one part
  make_files "$1/small.txt" 5 "$1/empty" 0 "$1/with space/a+b=c&d.txt" 1000 \
    "$1/ünï/日本語 100%.bin" 100000 "$1/deep/er/and/deeper/big.bin" "$big"
  find "$1" -type f -exec touch -t 202401020304.05 {} +
}

# Fails unless both trees have the same files with the same bytes.
same_tree() { diff -r "$1" "$2"; }

finish() {
  [ "$failed" = 0 ] || printf '%s: %s claims do not hold\n' "$(basename "$0")" "$failed" >&2
  exit $((failed > 0))
}
