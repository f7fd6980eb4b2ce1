"""The client and the bucket that the claims share. Everything about the endpoint is in AWS_*."""

import contextlib
import datetime
import os
import unittest.mock

import boto3
from botocore.config import Config

ENDPOINT = os.environ["AWS_ENDPOINT_URL"]
BUCKET = f"claims-{os.getpid()}"

# Nothing but the defaults: what a user gets who sets the endpoint and the two keys.
s3 = boto3.client("s3")


def client(**settings):
    """Another client, with settings of botocore's Config and, by name, other keys or endpoint."""
    names = ("aws_access_key_id", "aws_secret_access_key", "endpoint_url", "verify")
    other = {name: settings.pop(name) for name in names if name in settings}
    if "aws_secret_access_key" in other:  # one without the other is no pair
        other.setdefault("aws_access_key_id", os.environ["AWS_ACCESS_KEY_ID"])
    # A refusal is what we ask for here: no second attempts.
    settings.setdefault("retries", {"total_max_attempts": 1})
    return boto3.client("s3", config=Config(**settings), **other)


def put(key, body=b"hello", **more):
    return s3.put_object(Bucket=BUCKET, Key=key, Body=body, **more)


def get(key, **more):
    return s3.get_object(Bucket=BUCKET, Key=key, **more)


def head(key, **more):
    return s3.head_object(Bucket=BUCKET, Key=key, **more)


def keys(**more):
    """All keys that a list gives, over all of its pages."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, **more)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


@contextlib.contextmanager
def clock_moved_by(**delta):
    """What is signed inside is signed that much later, or earlier: no test has to wait."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    moved = now + datetime.timedelta(**delta)
    with unittest.mock.patch("botocore.auth.get_current_datetime", lambda **_: moved):
        yield


def clear():
    """Empties and removes the bucket, whatever is left in it."""
    for upload in s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    for key in keys():
        s3.delete_object(Bucket=BUCKET, Key=key)
    s3.delete_bucket(Bucket=BUCKET)
