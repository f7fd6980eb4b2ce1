#!/usr/bin/env bash
# Claims about an S3 endpoint, tried with an unmodified rclone. `tests/s3-clients run rclone`
# starts it. An argument runs only the claims whose text contains it.
# shellcheck disable=SC2329 # the functions below are called by their names
# shellcheck source=tests/s3/claims.sh
. "$(dirname "${BASH_SOURCE[0]}")/claims.sh"

# A remote without a file of settings. The second one is for what rclone does only with AWS itself:
# the newer list, with encoded keys.
export RCLONE_CONFIG=/dev/null
export RCLONE_CONFIG_S_TYPE=s3 RCLONE_CONFIG_S_PROVIDER=Other RCLONE_CONFIG_S_ENV_AUTH=true
export RCLONE_CONFIG_S_ENDPOINT=$AWS_ENDPOINT_URL
export RCLONE_CONFIG_V2_TYPE=s3 RCLONE_CONFIG_V2_PROVIDER=AWS RCLONE_CONFIG_V2_ENV_AUTH=true
export RCLONE_CONFIG_V2_ENDPOINT=$AWS_ENDPOINT_URL RCLONE_CONFIG_V2_FORCE_PATH_STYLE=true

bucket=rclone-$$
s=s:$bucket
make_files twenty 20971520
make_tree tree

# What is wrong shall be said, and at once.
rc() { rclone --retries 1 --low-level-retries 1 --log-level ERROR "$@"; }

make_bucket() {
  rc mkdir "$s"
  rc lsd s: >listed
  grep -q " $bucket\$" listed
}

twenty_up_and_down() {
  rc copyto twenty "$s/twenty" --s3-upload-cutoff 5M --s3-chunk-size 5M # four parts
  rc copyto "$s/twenty" back
  cmp twenty back
  rc copyto twenty "$s/twenty at once" # and in a single put
  rc copyto "$s/twenty at once" back
  cmp twenty back
}

copy_tree() {
  rc copy tree "$s/tree"
  rc copy "$s/tree" tree.back
  same_tree tree tree.back
}

check_tree() {
  rc check --download tree "$s/tree"
  rc check tree "$s/tree" # by ETag, or the MD5 that rclone leaves with objects in parts
  rc --log-level NOTICE sync --dry-run tree "$s/tree" 2>said
  without Skipped said # nothing to do: the times are kept in metadata
}

sync_changes() {
  cp -Rp tree changed
  rm -r changed/deep
  printf 'changed' >changed/small.txt
  printf 'new' >'changed/new file'
  rc sync changed "$s/tree"
  rc check --download changed "$s/tree"
  rc sync "$s/tree" tree.back
  same_tree changed tree.back
}

# The files below the current folder, each with its size, as `lsf --format ps` has them.
files() {
  local file
  find . -type f | while IFS= read -r file; do
    printf '%s;%s\n' "${file#./}" "$(wc -c <"$file" | tr -d ' ')"
  done | LC_ALL=C sort
}

list() {
  prints $'empty\nnew file\nsmall.txt\nwith space/\nünï/' rc lsf "$s/tree"
  rc lsf -R --files-only --format ps "$s/tree" | LC_ALL=C sort >listed
  prints "$(cd changed && files)" cat listed
  rc lsf -R "$s/tree" >listed
  prints "$(cat listed)" rc lsf -R "v2:$bucket/tree"
}

many() {
  mkdir -p many
  (cd many && seq -f '%04.0f' 1 105 | xargs touch)
  export RCLONE_S3_LIST_CHUNK=50 # boto3 lists pages of 1,000
  rc copy many "$s/many" --transfers 8
  rc lsf "$s/many" >listed
  prints 105 grep -c . listed
  prints "$(cat listed)" rc lsf "v2:$bucket/many"
  rc delete "$s/many"
  prints '' rc lsf "$s/many"
}

ranges() {
  rc cat --offset 1000000 --count 1000 "$s/twenty" >part
  cmp part <(tail -c +1000001 twenty | head -c 1000)
  rc cat --tail 10 "$s/twenty" >part
  cmp part <(tail -c 10 twenty)
}

streams() {
  rc rcat "$s/stream" <twenty
  rc cat "$s/stream" | cmp - twenty
}

copy_inside() {
  rc copyto "$s/twenty" "$s/copied ü+%/twenty" --s3-copy-cutoff 5M # parts, copied
  rc cat "$s/copied ü+%/twenty" | cmp - twenty
  rc moveto "$s/copied ü+%/twenty" "$s/moved"
  rc cat "$s/moved" | cmp - twenty
  prints '' rc lsf "$s/copied ü+%"
}

link() {
  local url
  url=$(rc link --expire 1m "$s/twenty")
  fetch "$url" | cmp - twenty
}

over_tls() {
  need_tls
  export RCLONE_CONFIG_S_ENDPOINT=$S3_TLS_ENDPOINT RCLONE_CONFIG_V2_ENDPOINT=$S3_TLS_ENDPOINT
  export RCLONE_CA_CERT=$S3_TLS_CA
  rc copyto twenty "$s/tls" --s3-upload-cutoff 5M --s3-chunk-size 5M
  rc cat "$s/tls" | cmp - twenty
  rc copyto twenty "v2:$bucket/tls at once"
  rc cat "v2:$bucket/tls at once" | cmp - twenty
}

delete_one() {
  rc deletefile "$s/twenty"
  prints 'twenty at once' rc lsf "$s" --files-only --include '/twenty*'
  refused 'not found' rc deletefile "$s/twenty"
}

wrong_keys() {
  AWS_SECRET_ACCESS_KEY=wrong refused SignatureDoesNotMatch rc lsf "$s"
  AWS_ACCESS_KEY_ID=NOTAKEY refused InvalidAccessKeyId rc lsf "$s"
}

purge() {
  rc purge "$s/tree"
  prints '' rc lsf "$s/tree"
  rc purge "$s"
  rc lsd s: >listed
  without " $bucket\$" listed
}

claim 'mkdir makes a bucket, lsd shows it' make_bucket
claim 'copy of 20 MB up and down, in parts and at once' twenty_up_and_down
claim 'copy of a tree up and down' copy_tree
claim 'check --download of the tree, and a sync with nothing to do' check_tree
claim 'sync follows changes, both ways' sync_changes
claim 'lsf, with both versions of list' list
claim 'copy, lsf and delete of 105 files, in pages of 50' many
claim 'cat of ranges' ranges
claim 'rcat of a stream' streams
claim 'copy and move of 20 MB inside of the bucket' copy_inside
claim 'link gives a presigned URL' link
claim 'copy of 20 MB over TLS, in parts and at once' over_tls
claim 'deletefile' delete_one
claim 'wrong keys are refused' wrong_keys
claim 'purge of a folder and of the bucket' purge
finish
