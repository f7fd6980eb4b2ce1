#!/usr/bin/env bash
# Claims about an S3 endpoint, tried with an unmodified awscli. `tests/s3-clients run awscli`
# starts it. An argument runs only the claims whose text contains it.
# shellcheck disable=SC2329 # the functions below are called by their names
# shellcheck source=tests/s3/claims.sh
. "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
start_once aws awscli.clidriver awscli.handlers awscli.customizations.s3.subcommands

bucket=cli-$$
make_files twenty 20971520
make_tree tree

make_bucket() {
  aws s3 mb "s3://$bucket"
  aws s3 ls >listed
  grep -q " $bucket\$" listed
}

twenty_up_and_down() {
  aws s3 cp twenty "s3://$bucket/twenty" --only-show-errors --metadata a=1 --content-type video/x
  aws s3 cp "s3://$bucket/twenty" back --only-show-errors
  cmp twenty back
  prints $'20971520\tvideo/x\t1' aws s3api head-object --bucket "$bucket" --key twenty \
    --output text --query '[ContentLength, ContentType, Metadata.a]'
}

streams() {
  aws s3 cp - "s3://$bucket/stream" <twenty
  aws s3 cp "s3://$bucket/stream" - | cmp - twenty
}

copy_inside() {
  aws s3 cp "s3://$bucket/twenty" "s3://$bucket/twenty copied" --only-show-errors
  aws s3 mv "s3://$bucket/twenty copied" "s3://$bucket/moved/twenty" --only-show-errors
  aws s3 cp "s3://$bucket/moved/twenty" - | cmp - twenty
  refused 404 aws s3api head-object --bucket "$bucket" --key 'twenty copied'
}

sync_up_and_down() {
  aws s3 sync tree "s3://$bucket/tree" --only-show-errors
  aws s3 sync "s3://$bucket/tree" tree.back --only-show-errors
  same_tree tree tree.back
}

sync_again() {
  prints '' aws s3 sync tree "s3://$bucket/tree"
  prints '' aws s3 sync "s3://$bucket/tree" tree.back
}

sync_changes() {
  cp -Rp tree changed
  rm -r changed/deep
  printf 'changed' >changed/small.txt
  printf 'new' >'changed/new file'
  aws s3 sync changed "s3://$bucket/tree" --delete --only-show-errors
  aws s3 sync "s3://$bucket/tree" tree.back --delete --only-show-errors
  find tree.back -type d -empty -delete # folders are not part of what is synced
  same_tree changed tree.back
}

list() {
  local listed
  listed=$(aws s3 ls "s3://$bucket/tree/" | awk '{ $1 = $1; print }')
  grep -qx 'PRE with space/' <<<"$listed"
  grep -qx 'PRE ünï/' <<<"$listed"
  grep -q ' 7 small.txt$' <<<"$listed"
  listed=$(aws s3 ls --recursive --summarize "s3://$bucket/tree/")
  grep -q '日本語 100%.bin' <<<"$listed"
  grep -q 'Total Objects: 5' <<<"$listed"
}

many() {
  mkdir -p many
  (cd many && seq -f '%04.0f' 1 105 | xargs touch)
  aws s3 cp many "s3://$bucket/many" --recursive --only-show-errors
  aws s3 ls --page-size 50 "s3://$bucket/many/" >listed
  prints 105 grep -c . listed
  aws s3 rm "s3://$bucket/many" --recursive --page-size 50 --only-show-errors
  prints 0 aws s3api list-objects-v2 --bucket "$bucket" --prefix many/ \
    --query KeyCount --output text --no-paginate
}

presign() {
  local url
  url=$(aws s3 presign "s3://$bucket/twenty" --expires-in 60)
  fetch "$url" | cmp - twenty
}

api() {
  local where=(--bucket "$bucket" --key 'the/key ü+%')
  aws s3api put-object "${where[@]}" --body tree/small.txt --checksum-algorithm SHA256
  aws s3api get-object "${where[@]}" --range bytes=1-3 part
  cmp part <(tail -c +2 tree/small.txt | head -c 3)
  aws s3api head-object "${where[@]}" --checksum-mode ENABLED --output text \
    --query ChecksumSHA256 >sum
  grep -q '=$' sum
  aws s3api copy-object --bucket "$bucket" --key copy --copy-source "$bucket/the/key ü+%"
  prints 'the/key ü+%' aws s3api list-objects-v2 --bucket "$bucket" --prefix the/ \
    --output text --query 'Contents[].Key'
  refused PreconditionFailed aws s3api put-object "${where[@]}" --body twenty --if-none-match '*'
  aws s3api delete-object "${where[@]}"
  refused NoSuchKey aws s3api get-object "${where[@]}" part
}

api_multipart() {
  local upload where=(--bucket "$bucket" --key parts)
  upload=$(aws s3api create-multipart-upload "${where[@]}" --query UploadId --output text)
  aws s3api upload-part "${where[@]}" --upload-id "$upload" --part-number 1 --body tree/small.txt
  prints 5 aws s3api list-parts "${where[@]}" --upload-id "$upload" --query 'Parts[].Size' \
    --output text
  prints parts aws s3api list-multipart-uploads --bucket "$bucket" --query 'Uploads[].Key' \
    --output text
  aws s3api abort-multipart-upload "${where[@]}" --upload-id "$upload"
  refused NoSuchUpload aws s3api list-parts "${where[@]}" --upload-id "$upload"
}

over_tls() {
  need_tls
  export AWS_ENDPOINT_URL=$S3_TLS_ENDPOINT AWS_CA_BUNDLE=$S3_TLS_CA
  aws s3 cp twenty "s3://$bucket/tls" --only-show-errors
  aws s3 cp "s3://$bucket/tls" - | cmp - twenty
}

wrong_keys() {
  AWS_SECRET_ACCESS_KEY=wrong refused SignatureDoesNotMatch aws s3 ls "s3://$bucket"
  AWS_ACCESS_KEY_ID=NOTAKEY refused InvalidAccessKeyId aws s3 ls
  refused NoSuchBucket aws s3 ls "s3://$bucket-not-there"
}

remove() {
  refused BucketNotEmpty aws s3 rb "s3://$bucket"
  aws s3 rm "s3://$bucket" --recursive --only-show-errors
  prints '' aws s3 ls "s3://$bucket"
  aws s3 rb "s3://$bucket"
  refused NoSuchBucket aws s3 ls "s3://$bucket"
}

remove_by_force() {
  aws s3 mb "s3://$bucket-full"
  aws s3 cp tree/small.txt "s3://$bucket-full/a b" --only-show-errors
  aws s3 rb "s3://$bucket-full" --force
}

claim 's3 mb makes a bucket, s3 ls shows it' make_bucket
claim 's3 cp of 20 MB up and down' twenty_up_and_down
claim 's3 cp of streams' streams
claim 's3 cp and mv of 20 MB inside of the bucket' copy_inside
claim 's3 sync of a tree up and down' sync_up_and_down
claim 's3 sync again has nothing to do' sync_again
claim 's3 sync --delete follows changes, both ways' sync_changes
claim 's3 ls with folders, and recursive' list
claim 's3 cp, ls and rm of 105 files, in pages of 50' many
claim 's3 presign in the region of the guide' presign
claim 's3api put, get a range, head, copy, list, delete' api
claim 's3api multipart, listed and aborted' api_multipart
claim 's3 cp of 20 MB over TLS, with checksums in trailers' over_tls
claim 'wrong keys and unknown buckets are refused' wrong_keys
claim 's3 rm --recursive, and rb of an empty bucket only' remove
claim 's3 rb --force' remove_by_force
finish
