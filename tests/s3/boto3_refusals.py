import socket
import urllib.parse

from botocore import UNSIGNED

from boto3_presign import presigned
from claims import check, claim, refused, same, status
from world import BUCKET, ENDPOINT, client, clock_moved_by, get, head, put, s3

NOWHERE = f"{BUCKET}-not-there"


@claim("a wrong secret is refused")
def wrong_secret():
    wrong = client(aws_secret_access_key="wrong")
    answer = refused("SignatureDoesNotMatch", wrong.list_objects_v2, Bucket=BUCKET)
    same(status(answer), 403)
    refused("SignatureDoesNotMatch", wrong.put_object, Bucket=BUCKET, Key="forged", Body=b"x")
    refused("404", head, key="forged")


@claim("an access key that is not known is refused")
def unknown_access_key():
    unknown = client(aws_access_key_id="NOTAKEY", aws_secret_access_key="x")
    answer = refused("InvalidAccessKeyId", unknown.list_buckets)
    same(status(answer), 403)


@claim("a request without a signature is refused")
def unsigned():
    nobody = client(signature_version=UNSIGNED)
    put("private")
    refused("AccessDenied", nobody.get_object, Bucket=BUCKET, Key="private")
    refused("AccessDenied", nobody.put_object, Bucket=BUCKET, Key="forged", Body=b"x")
    refused("AccessDenied", nobody.list_buckets)
    refused("404", head, key="forged")


@claim("a request that is an hour old is refused")
def skewed():
    one = client()
    with clock_moved_by(hours=-1):
        refused("RequestTimeTooSkewed", one.list_objects_v2, Bucket=BUCKET)


@claim("a bucket that is not there is refused")
def unknown_bucket():
    there = {"Bucket": NOWHERE, "Key": "x"}
    refused("NoSuchBucket", s3.put_object, **there, Body=b"x")
    refused("NoSuchBucket", s3.get_object, **there)
    refused("NoSuchBucket", s3.delete_object, **there)
    refused("NoSuchBucket", s3.create_multipart_upload, **there)
    refused("NoSuchBucket", s3.list_objects_v2, Bucket=NOWHERE)
    refused("NoSuchBucket", s3.delete_bucket, Bucket=NOWHERE)
    refused("NoSuchBucket", s3.delete_objects, Bucket=NOWHERE, Delete={"Objects": [{"Key": "x"}]})
    refused("404", s3.head_bucket, Bucket=NOWHERE)


@claim("a key that is not there is refused")
def unknown_key():
    same(status(refused("NoSuchKey", get, key="not there")), 404)
    refused("404", head, key="not there")


@claim("what we do not do is said, and not done by half")
def not_implemented():
    site = {"IndexDocument": {"Suffix": "index.html"}}
    answer = refused(
        ("NotImplemented", "AccessDenied"),
        s3.put_bucket_website,
        Bucket=BUCKET,
        WebsiteConfiguration=site,
    )
    check(status(answer) in (403, 501), f"the status is {status(answer)}")


@claim("a body that ends before its Content-Length leaves nothing")
def short_body():
    url = urllib.parse.urlsplit(presigned("put_object", "cut off"))
    address = urllib.parse.urlsplit(ENDPOINT)
    with socket.create_connection((address.hostname, address.port)) as line:
        head_lines = [
            f"PUT {url.path}?{url.query} HTTP/1.1",
            f"Host: {url.netloc}",
            "Content-Length: 1000000",
            "",
            "only this",
        ]
        line.sendall("\r\n".join(head_lines).encode())
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):  # until the server has seen the end, too
            pass
    refused("404", head, key="cut off")
