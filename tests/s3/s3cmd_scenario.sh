#!/usr/bin/env bash
# Claims about an S3 endpoint, tried with an unmodified s3cmd. `tests/s3-clients run s3cmd` starts
# it. An argument runs only the claims whose text contains it.
# shellcheck disable=SC2329 # the functions below are called by their names
# shellcheck source=tests/s3/claims.sh
. "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
start_once s3cmd S3.FileLists S3.MultiPart S3.CloudFront S3.S3

host=${AWS_ENDPOINT_URL#http://}
host=${host%/}
bucket=s3cmd-$$
s=s3://$bucket
make_files twelve 12000000
make_tree tree

# The settings that somebody would make, and no region: its default is `US`, which S3 knows as
# `us-east-1`.
printf '[default]\naccess_key = %s\nsecret_key = %s\nhost_base = %s\nhost_bucket = %s\n' \
  "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" "$host" "$host" >settings
printf 'use_https = False\nmax_retries = 1\n' >>settings
sc() { s3cmd --config="$folder/settings" --no-progress "$@"; }

make_bucket() {
  sc mb "$s"
  sc ls >listed
  grep -q " $s\$" listed
}

up_and_down() {
  sc put tree/small.txt "$s/small.txt"
  sc get --force "$s/small.txt" back
  cmp tree/small.txt back
  sc put tree/empty "$s/empty"
  sc get --force "$s/empty" back
  cmp tree/empty back
}

in_parts() {
  sc put --multipart-chunk-size-mb=5 twelve "$s/twelve"
  sc get --force "$s/twelve" back
  cmp twelve back
  sc multipart "$s" >listed
  without "$s/twelve" listed # nothing is left over
}

# The names at the end of each line of a list.
names() { sed 's/.*s3:/s3:/' | LC_ALL=C sort; }

list() {
  sc ls "$s" | names >listed
  prints "$(printf '%s\n' "$s/empty" "$s/small.txt" "$s/twelve")" cat listed
  sc ls "$s/s" | names >listed
  prints "$s/small.txt" cat listed
  sc du "$s" >said
  grep -q '^ *12000005 ' said
}

sync_tree() {
  sc sync tree/ "$s/tree/"
  mkdir back.tree
  sc sync "$s/tree/" back.tree/
  same_tree tree back.tree
  sc sync tree/ "$s/tree/" >said
  without 'upload:' said # nothing to do
  rm -r tree/deep
  sc sync --delete-removed tree/ "$s/tree/"
  sc ls --recursive "$s/tree/" >listed
  without deeper listed
}

info() {
  sc info "$s/twelve" >said
  grep -q 'File size: 12000000' said
  grep -q 'FULL_CONTROL' said
  sc info "$s" >said
  grep -q "$s/ (bucket)" said
}

copy_and_move() {
  sc cp "$s/small.txt" "$s/copied ü+%"
  sc mv "$s/copied ü+%" "$s/moved"
  sc get --force "$s/moved" back
  cmp tree/small.txt back
  refused 'does not exist' sc get --force "$s/copied ü+%" back
}

metadata() {
  sc put --mime-type=text/x-odd --add-header=x-amz-meta-color:blue tree/small.txt "$s/odd"
  sc info "$s/odd" >said
  grep -q 'MIME type: text/x-odd' said
  grep -q 'x-amz-meta-color: blue' said
}

public() {
  sc put --acl-public tree/small.txt "$s/public" # it is stored, and private all the same
  refused 403 fetch "$AWS_ENDPOINT_URL/$bucket/public"
  refused 'all is private' sc setacl --acl-public "$s/public"
  sc setacl --acl-private "$s/public"
}

link() {
  local url
  url=$(sc signurl "$s/small.txt" +60)
  case $url in
    *X-Amz-Signature*) fetch "$url" | cmp - tree/small.txt ;;
    # s3cmd knows only the old signature for URLs.
    *) refused 400 fetch "$url" ;;
  esac
}

wrong_keys() {
  refused InvalidAccessKeyId sc --access_key=NOTAKEY ls "$s"
  refused SignatureDoesNotMatch sc --secret_key=wrong ls "$s"
}

delete_all() {
  sc del "$s/small.txt"
  refused 'does not exist' sc get --force "$s/small.txt" back
  sc del --recursive --force "$s/"
  prints '' sc ls --recursive "$s"
  sc rb "$s"
  sc ls >listed
  without " $s\$" listed
}

claim 'mb makes a bucket, ls shows it; the region is US' make_bucket
claim 'put and get' up_and_down
claim 'put of 12 MB in parts' in_parts
claim 'ls and du' list
claim 'sync of a tree, both ways' sync_tree
claim 'info of a blob and of the bucket' info
claim 'cp and mv' copy_and_move
claim 'MIME type and metadata' metadata
claim 'what is to be public is stored, and private' public
claim 'signurl' link
claim 'wrong keys are refused' wrong_keys
claim 'del, one and all, and rb' delete_all
finish
