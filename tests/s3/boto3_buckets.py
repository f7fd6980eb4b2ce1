from claims import check, claim, refused, same, status
from world import BUCKET, s3


@claim("create a bucket, and see it in the list")
def created():
    name = f"{BUCKET}-other"
    same(status(s3.create_bucket(Bucket=name)), 200)
    listed = {bucket["Name"]: bucket for bucket in s3.list_buckets()["Buckets"]}
    check(name in listed, f"{name} is not in the list of buckets")
    check(listed[name]["CreationDate"].year >= 2024, "it has no date of creation")
    same(status(s3.head_bucket(Bucket=name)), 200)
    same(status(s3.delete_bucket(Bucket=name)), 204)


@claim("create a bucket again, which keeps what is in it")
def again():
    s3.put_object(Bucket=BUCKET, Key="kept", Body=b"kept")
    # AWS says yes in us-east-1 and no elsewhere.
    try:
        s3.create_bucket(Bucket=BUCKET)
    except s3.exceptions.BucketAlreadyOwnedByYou:
        pass
    same(s3.get_object(Bucket=BUCKET, Key="kept")["Body"].read(), b"kept")


@claim("a bucket has no location constraint, and none is created in another location")
def location():
    same(s3.get_bucket_location(Bucket=BUCKET)["LocationConstraint"], None)
    name = f"{BUCKET}-far"
    far = {"LocationConstraint": "eu-west-1"}
    code = "InvalidLocationConstraint"
    refused(code, s3.create_bucket, Bucket=name, CreateBucketConfiguration=far)
    refused("404", s3.head_bucket, Bucket=name)


@claim("a bucket's name follows the rules")
def names():
    for name in ("Upper-Case", "un_der", "a..b", "-dash", "192.168.1.1"):
        refused("InvalidBucketName", s3.create_bucket, Bucket=name)
