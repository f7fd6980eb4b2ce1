import datetime
import functools

from claims import check, claim, md5, refused, same, some_bytes, status
from world import BUCKET, get, head, keys, put, s3


@claim("put and get, with metadata and content type")
def round_trip():
    answer = put("plain", b"hello", ContentType="text/plain", Metadata={"colour": "blue", "n": "1"})
    same(answer["ETag"], f'"{md5(b"hello")}"', "the ETag")
    for found in (get("plain"), head("plain")):
        same(found["ContentType"], "text/plain", "the content type")
        same(found["Metadata"], {"colour": "blue", "n": "1"}, "the metadata")
        same(found["ContentLength"], 5, "the length")
        same(found["ETag"], answer["ETag"], "the ETag")
        age = datetime.datetime.now(datetime.timezone.utc) - found["LastModified"]
        check(abs(age.total_seconds()) < 300, f"its date is {found['LastModified']}")
    same(get("plain")["Body"].read(), b"hello", "the body")


@claim("the headers that describe an object come back")
def headers():
    described = {
        "CacheControl": "max-age=60",
        "ContentDisposition": 'attachment; filename="x.txt"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "en",
    }
    put("described", b"x", **described)
    found = head("described")
    same({name: found.get(name) for name in described}, described)


@claim("an object without a content type is binary/octet-stream")
def default_type():
    put("untyped")
    same(head("untyped")["ContentType"], "binary/octet-stream")


@claim("an empty object")
def empty():
    put("empty", b"")
    same(get("empty")["Body"].read(), b"")
    same(head("empty")["ContentLength"], 0)
    same(head("empty")["ETag"], f'"{md5(b"")}"')


@claim("a put replaces the object and its metadata")
def replaced():
    put("replaced", b"one", Metadata={"old": "1"})
    put("replaced", b"three", Metadata={"new": "2"})
    found = get("replaced")
    same((found["Body"].read(), found["Metadata"]), (b"three", {"new": "2"}))


STRANGE_KEYS = [
    "with space",
    " leading and trailing ",
    "a+b=c&d?e#f",
    "100%",
    "%2e%2e%2f",
    "ünï-cødé-日本語-🎈",
    "e\u0301 and é",
    "../../up",
    "a/./b/../c",
    "/leading",
    "//two",
    "a//b",
    "trailing/",
    "..",
    ".",
    "back\\slash",
    "<tag> & 'quotes' \"both\"",
    "line\nbreak",
    "~-_.!*'();:@$,[]",
    "k" * 1024,
    "é" * 512,
]


def strange_key(key):
    body = key.encode()
    put(key, body)
    same(get(key)["Body"].read(), body, "the body")
    same(keys(Prefix=key), [key], "the list with the key as its prefix")
    same(keys(Prefix=key, Delimiter="\t"), [key], "the list with a delimiter")
    same(status(s3.delete_object(Bucket=BUCKET, Key=key)), 204)
    refused("NoSuchKey", get, key=key)


for strange in STRANGE_KEYS:
    name = repr(strange) if len(strange) < 50 else f"{strange[0]!r} and so on, 1,024 bytes"
    claim(f"the key {name}")(functools.partial(strange_key, strange))


@claim("keys that differ by little are different keys")
def alike():
    for key in STRANGE_KEYS:
        put(key, key.encode())
    same(sorted(set(keys()) & set(STRANGE_KEYS)), sorted(STRANGE_KEYS))
    for key in STRANGE_KEYS:
        same(get(key)["Body"].read(), key.encode(), f"the body at {key!r}")


@claim("a key of 1,025 bytes is refused")
def long_key():
    refused("KeyTooLongError", put, key="k" * 1025)
    refused("KeyTooLongError", put, key="é" * 512 + "k")


@claim("a range of an object")
def ranges():
    data = some_bytes(100)
    put("ranges", data)
    for asked, first, end in (
        ("bytes=0-9", 0, 10),
        ("bytes=90-", 90, 100),
        ("bytes=-5", 95, 100),
        ("bytes=-500", 0, 100),
        ("bytes=50-5000", 50, 100),
        ("bytes=99-99", 99, 100),
    ):
        answer = get("ranges", Range=asked)
        same(status(answer), 206, asked)
        same(answer["Body"].read(), data[first:end], asked)
        same(answer["ContentRange"], f"bytes {first}-{end - 1}/100", asked)
        same(answer["ContentLength"], end - first, asked)
    same(get("ranges").get("AcceptRanges"), "bytes")


@claim("a range outside of an object is refused")
def outside():
    put("ranges", some_bytes(100))
    for asked in ("bytes=100-", "bytes=100-200", "bytes=-0"):
        answer = refused("InvalidRange", get, key="ranges", Range=asked)
        same(status(answer), 416, asked)
    put("empty", b"")
    refused("InvalidRange", get, key="empty", Range="bytes=0-0")


@claim("copy keeps body, content type and metadata")
def copied():
    put("from ü+%", b"copied", ContentType="text/x", Metadata={"a": "1"})
    source = {"Bucket": BUCKET, "Key": "from ü+%"}
    answer = s3.copy_object(Bucket=BUCKET, Key="to", CopySource=source)
    same(answer["CopyObjectResult"]["ETag"], f'"{md5(b"copied")}"')
    found = get("to")
    same(
        (found["Body"].read(), found["ContentType"], found["Metadata"]),
        (b"copied", "text/x", {"a": "1"}),
    )


@claim("copy with REPLACE takes the metadata of the request")
def copied_anew():
    put("from", b"copied", ContentType="text/x", Metadata={"a": "1"})
    source = {"Bucket": BUCKET, "Key": "from"}
    new = {"MetadataDirective": "REPLACE", "Metadata": {"b": "2"}, "ContentType": "text/y"}
    s3.copy_object(Bucket=BUCKET, Key="to", CopySource=source, **new)
    found = head("to")
    same((found["ContentType"], found["Metadata"]), ("text/y", {"b": "2"}))
    # Onto itself it is the way to change metadata, and only that.
    s3.copy_object(Bucket=BUCKET, Key="from", CopySource=source, **new)
    same(head("from")["Metadata"], {"b": "2"})
    refused("InvalidRequest", s3.copy_object, Bucket=BUCKET, Key="from", CopySource=source)


@claim("a copy of what is not there is refused")
def copied_nothing():
    source = {"Bucket": BUCKET, "Key": "not there"}
    refused("NoSuchKey", s3.copy_object, Bucket=BUCKET, Key="to", CopySource=source)
    source = {"Bucket": f"{BUCKET}-not-there", "Key": "x"}
    refused("NoSuchBucket", s3.copy_object, Bucket=BUCKET, Key="to", CopySource=source)


@claim("delete, and delete what is not there")
def deleted():
    put("deleted")
    for _ in range(2):
        same(status(s3.delete_object(Bucket=BUCKET, Key="deleted")), 204)
        refused("NoSuchKey", get, key="deleted")
        refused("404", head, key="deleted")


@claim("delete several keys at once, there or not")
def deleted_several():
    for n in range(3):
        put(f"several/{n} <&>")
    wanted = [f"several/{n} <&>" for n in range(4)]
    objects = {"Objects": [{"Key": key} for key in wanted]}
    answer = s3.delete_objects(Bucket=BUCKET, Delete=objects)
    same(sorted(item["Key"] for item in answer["Deleted"]), wanted)
    check("Errors" not in answer, f"it has errors: {answer.get('Errors')}")
    same(keys(Prefix="several/"), [])
    answer = s3.delete_objects(Bucket=BUCKET, Delete={**objects, "Quiet": True})
    check("Deleted" not in answer, "quiet, and yet it says what was deleted")
