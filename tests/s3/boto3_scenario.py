"""Claims about an S3 endpoint, tried with an unmodified boto3.

tests/s3-clients run boto3 starts it. An argument runs only the claims whose text contains it. What
AWS does is right.
"""

import contextlib

# The order of these lines is the order of the claims: the bucket first, its end last.
import boto3_buckets
import boto3_objects
import boto3_conditions
import boto3_checksums
import boto3_multipart
import boto3_lists
import boto3_presign
import boto3_refusals
import claims
import world


@claims.claim("delete a bucket, which must be empty")
def last():
    world.put("the last object")
    claims.refused("BucketNotEmpty", world.s3.delete_bucket, Bucket=world.BUCKET)
    world.clear()
    claims.refused("404", world.s3.head_bucket, Bucket=world.BUCKET)
    names = [bucket["Name"] for bucket in world.s3.list_buckets()["Buckets"]]
    claims.check(world.BUCKET not in names, "the bucket is still listed")


# A run of some claims needs the bucket, too, and must not leave it behind.
world.s3.create_bucket(Bucket=world.BUCKET)
try:
    claims.run()
finally:
    with contextlib.suppress(world.s3.exceptions.ClientError):  # the last claim has removed it
        world.clear()
