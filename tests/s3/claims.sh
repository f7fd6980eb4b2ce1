# Sourced: runs claims one by one, a line each, in a folder of their own.
# shellcheck shell=bash
set -euo pipefail

: "${AWS_ENDPOINT_URL:?}" "${AWS_ACCESS_KEY_ID:?}" "${AWS_SECRET_ACCESS_KEY:?}"
wanted=${1:-} # only the claims with this in their text
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
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

# make_file NAME SIZE: the same bytes in every run.
make_file() {
  mkdir -p "$(dirname "$1")"
  python3 - "$2" >"$1" <<'PYTHON'
import random, sys
sys.stdout.buffer.write(random.Random(7).randbytes(int(sys.argv[1])))
PYTHON
}

# A tree with names that need care.
make_tree() {
  make_file "$1/small.txt" 5
  make_file "$1/empty" 0
  make_file "$1/with space/a+b=c&d.txt" 1000
  make_file "$1/ünï/日本語 100%.bin" 100000
  make_file "$1/deep/er/and/deeper/big.bin" 9000000 # more than one part
  find "$1" -type f -exec touch -t 202401020304.05 {} +
}

# Fails unless both trees have the same files with the same bytes.
same_tree() { diff -r "$1" "$2"; }

finish() {
  [ "$failed" = 0 ] || printf '%s: %s claims do not hold\n' "$(basename "$0")" "$failed" >&2
  exit $((failed > 0))
}
