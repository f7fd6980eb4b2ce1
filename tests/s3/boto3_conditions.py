import datetime

from claims import claim, refused, same, status
from world import BUCKET, get, head, put, s3

WRONG = '"00000000000000000000000000000000"'
HOUR = datetime.timedelta(hours=1)


@claim("If-None-Match: * puts only where nothing is")
def only_new():
    put("once", b"first", IfNoneMatch="*")
    answer = refused("PreconditionFailed", put, key="once", body=b"second", IfNoneMatch="*")
    same(status(answer), 412)
    same(get("once")["Body"].read(), b"first")
    s3.delete_object(Bucket=BUCKET, Key="once")
    put("once", b"third", IfNoneMatch="*")


@claim("If-Match puts only over the object that is meant")
def only_over():
    tag = put("swap", b"first")["ETag"]
    refused("PreconditionFailed", put, key="swap", body=b"x", IfMatch=WRONG)
    put("swap", b"second", IfMatch=tag)
    refused("PreconditionFailed", put, key="swap", body=b"x", IfMatch=tag)
    same(get("swap")["Body"].read(), b"second")
    refused("NoSuchKey", put, key="not there", IfMatch=tag)


@claim("If-Match and If-None-Match on get and head")
def on_get():
    tag = put("tagged")["ETag"]
    same(get("tagged", IfMatch=tag)["Body"].read(), b"hello")
    same(get("tagged", IfNoneMatch=WRONG)["Body"].read(), b"hello")
    same(status(refused("PreconditionFailed", get, key="tagged", IfMatch=WRONG)), 412)
    same(status(refused("304", get, key="tagged", IfNoneMatch=tag)), 304)
    # An answer to HEAD has no body, so its status is all the client knows.
    refused("412", head, key="tagged", IfMatch=WRONG)
    refused("304", head, key="tagged", IfNoneMatch=tag)


@claim("If-Modified-Since and If-Unmodified-Since")
def on_date():
    put("dated")
    date = head("dated")["LastModified"]
    same(status(get("dated", IfModifiedSince=date - HOUR)), 200)
    same(status(get("dated", IfUnmodifiedSince=date)), 200)
    refused("304", get, key="dated", IfModifiedSince=date)
    refused("PreconditionFailed", get, key="dated", IfUnmodifiedSince=date - HOUR)


@claim("copy under a condition on its source")
def on_copy():
    tag = put("source", b"copied")["ETag"]
    here = {"Bucket": BUCKET, "Key": "target", "CopySource": {"Bucket": BUCKET, "Key": "source"}}
    s3.copy_object(**here, CopySourceIfMatch=tag)
    s3.copy_object(**here, CopySourceIfNoneMatch=WRONG)
    refused("PreconditionFailed", s3.copy_object, **here, CopySourceIfMatch=WRONG)
    refused("PreconditionFailed", s3.copy_object, **here, CopySourceIfNoneMatch=tag)
