import base64
import hashlib
import os
import zlib

from botocore.httpchecksum import Crc32Checksum

from claims import Skip, check, claim, refused, same, some_bytes, status
from world import BUCKET, client, get, head, put, s3

DATA = some_bytes(300_000)
CRC32 = base64.b64encode(zlib.crc32(DATA).to_bytes(4, "big")).decode()
SHA256 = base64.b64encode(hashlib.sha256(DATA).digest()).decode()


def nothing_at(key):
    refused("404", head, key=key)


@claim("the CRC32 that boto3 sends by itself is kept and given back")
def crc32():
    same(put("crc32", DATA).get("ChecksumCRC32"), CRC32, "the answer to put")
    found = head("crc32", ChecksumMode="ENABLED")
    same(found.get("ChecksumCRC32"), CRC32)
    same(found.get("ChecksumType"), "FULL_OBJECT")
    # Asked for, boto3 compares it with the bytes that it reads.
    same(get("crc32", ChecksumMode="ENABLED")["Body"].read(), DATA)
    check("ChecksumCRC32" not in head("crc32"), "it is given unasked")


@claim("a SHA-256 is kept and given back")
def sha256():
    same(put("sha256", DATA, ChecksumAlgorithm="SHA256").get("ChecksumSHA256"), SHA256)
    same(head("sha256", ChecksumMode="ENABLED").get("ChecksumSHA256"), SHA256)
    same(get("sha256", ChecksumMode="ENABLED")["Body"].read(), DATA)


@claim("a wrong CRC32 is refused, and leaves nothing")
def wrong_crc32():
    answer = refused("BadDigest", put, key="bad", body=DATA, ChecksumCRC32="AAAAAA==")
    same(status(answer), 400)
    nothing_at("bad")


@claim("a wrong SHA-256 is refused, and leaves nothing")
def wrong_sha256():
    wrong = base64.b64encode(bytes(32)).decode()
    refused("BadDigest", put, key="bad", body=DATA, ChecksumSHA256=wrong)
    nothing_at("bad")


@claim("a checksum that is none is refused")
def no_checksum():
    refused("InvalidRequest", put, key="bad", body=DATA, ChecksumCRC32="AAAA")
    nothing_at("bad")


@claim("a wrong Content-MD5 is refused, and leaves nothing")
def wrong_md5():
    right = base64.b64encode(hashlib.md5(DATA).digest()).decode()
    wrong = base64.b64encode(bytes(16)).decode()
    put("md5", DATA, ContentMD5=right)
    refused("BadDigest", put, key="bad", body=DATA, ContentMD5=wrong)
    refused("InvalidDigest", put, key="bad", body=DATA, ContentMD5="not base64")
    nothing_at("bad")


@claim("a copy keeps the checksum")
def copied():
    put("crc32", DATA)
    source = {"Bucket": BUCKET, "Key": "crc32"}
    s3.copy_object(Bucket=BUCKET, Key="crc32 copied", CopySource=source)
    same(head("crc32 copied", ChecksumMode="ENABLED").get("ChecksumCRC32"), CRC32)


def over_tls():
    """A client that talks TLS: only then boto3 sends its CRC32 behind the body, in a trailer."""
    if "S3_TLS_ENDPOINT" not in os.environ:
        raise Skip("S3_TLS_ENDPOINT is not set")
    return client(endpoint_url=os.environ["S3_TLS_ENDPOINT"], verify=os.environ["S3_TLS_CA"])


@claim("over TLS the CRC32 comes in a trailer, in chunks without signatures")
def trailer():
    announced = []
    tls = over_tls()

    def watch(request, **_):
        announced.append(request.headers.get("x-amz-trailer"))

    tls.meta.events.register("before-send.s3", watch)
    for size in (0, 1, 300_000, 3 << 20):
        data = some_bytes(size)
        answer = tls.put_object(Bucket=BUCKET, Key="trailer", Body=data, ContentEncoding="gzip")
        same(announced.pop(), b"x-amz-checksum-crc32", "what boto3 announces")
        crc32 = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()
        same(answer.get("ChecksumCRC32"), crc32)
        same(get("trailer")["Body"].read(), data)
        same(head("trailer").get("ContentEncoding"), "gzip", "the encoding without aws-chunked")


class Wrong(Crc32Checksum):
    """A CRC32 that is never right, which boto3 itself would not send."""

    def digest(self):
        return bytes(byte ^ 255 for byte in super().digest())


@claim("a wrong CRC32 in a trailer is refused, and leaves nothing")
def wrong_trailer():
    tls = over_tls()

    def spoil(request, **_):
        request.data._checksum = Wrong()

    tls.meta.events.register("before-sign.s3.PutObject", spoil)
    refused("BadDigest", tls.put_object, Bucket=BUCKET, Key="bad", Body=DATA)
    nothing_at("bad")
