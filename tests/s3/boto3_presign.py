import re
import urllib.error
import urllib.parse
import urllib.request

from claims import check, claim, refused, same
from world import BUCKET, client, clock_moved_by, get, head, put, s3

v4 = client(signature_version="s3v4")


def presigned(method, key="presigned", by=v4, expires=300, **more):
    parameters = {"Bucket": BUCKET, "Key": key, **more}
    return by.generate_presigned_url(method, Params=parameters, ExpiresIn=expires)


def http(url, method="GET", body=None, headers=None):
    """The status and the body of a plain request, and the answer's headers."""
    headers = {"Content-Type": "application/octet-stream"} | (headers or {})
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


def turned_away(code, url, status=403, **request):
    got, body, _ = http(url, **request)
    found = re.search(r"<Code>(.*?)</Code>", body.decode(errors="replace"))
    check(found and found[1] == code, f"{got}, {body[:300]!r}, not {code}")
    same(got, status, "the status")
    return body.decode()


@claim("a presigned GET works with a plain HTTP client")
def presigned_get():
    put("presigned ü+ %/a", b"for everyone", ContentType="text/plain")
    status, body, headers = http(presigned("get_object", "presigned ü+ %/a"))
    same((status, body, headers["Content-Type"]), (200, b"for everyone", "text/plain"))
    same(http(presigned("head_object", "presigned ü+ %/a"), method="HEAD")[0], 200)
    turned_away("NoSuchKey", presigned("get_object", "not there"), status=404)


@claim("a presigned GET can name the headers of its answer")
def overridden():
    put("presigned")
    asked = 'attachment; filename="x y.txt"'
    more = {"ResponseContentDisposition": asked, "ResponseContentType": "text/x"}
    _, _, headers = http(presigned("get_object", **more))
    same((headers["Content-Disposition"], headers["Content-Type"]), (asked, "text/x"))


@claim("a presigned PUT works with a plain HTTP client")
def presigned_put():
    url = presigned("put_object", "sent plainly")
    same(http(url, "PUT", b"sent plainly")[0], 200)
    same(get("sent plainly")["Body"].read(), b"sent plainly")
    url = presigned("put_object", "sent typed", ContentType="text/x", Metadata={"a": "1"})
    typed = {"Content-Type": "text/x", "x-amz-meta-a": "1"}
    same(http(url, "PUT", b"typed", typed)[0], 200)
    found = head("sent typed")
    same((found["ContentType"], found["Metadata"]), ("text/x", {"a": "1"}))
    other = typed | {"Content-Type": "text/html"}
    turned_away("SignatureDoesNotMatch", url, method="PUT", body=b"x", headers=other)


@claim("an expired presigned URL is refused")
def expired():
    put("presigned")
    with clock_moved_by(minutes=-10):
        old = presigned("get_object", expires=599)
        still_good = presigned("get_object", expires=660)
    check("expired" in turned_away("AccessDenied", old), "it does not say that it has expired")
    same(http(still_good)[0], 200)


@claim("a presigned URL from the future is refused")
def too_early():
    with clock_moved_by(hours=1):
        early = presigned("get_object")
    same(http(early)[0], 403)


@claim("a tampered presigned URL is refused")
def tampered():
    put("presigned")
    put("presigned too")
    good = presigned("get_object")
    same(http(good)[0], 200)
    last = "0" if good[-1] != "0" else "1"
    for url in (
        re.sub("(X-Amz-Signature=.*).", rf"\g<1>{last}", good),
        good.replace("/presigned?", "/presigned%20too?"),
        good.replace("X-Amz-Expires=300", "X-Amz-Expires=3000"),
        good + "&response-content-type=text/html",
    ):
        check(url != good, "nothing was changed")
        turned_away("SignatureDoesNotMatch", url)
    turned_away("SignatureDoesNotMatch", good, method="DELETE")
    turned_away("SignatureDoesNotMatch", good, method="PUT", body=b"x")
    same(get("presigned")["Body"].read(), b"hello")


@claim("a header that changes the request must be signed")
def unsigned_headers():
    put("secret", b"secret")
    url = presigned("put_object", "sent with more")
    for name, value in (("x-amz-copy-source", f"{BUCKET}/secret"), ("x-amz-meta-a", "1")):
        turned_away("AccessDenied", url, method="PUT", body=b"", headers={name: value})
    refused("404", head, key="sent with more")


@claim("a presigned URL is good for seven days at most")
def seven_days():
    put("presigned")
    same(http(presigned("get_object", expires=7 * 24 * 3600))[0], 200)
    long = presigned("get_object", expires=7 * 24 * 3600 + 1)
    turned_away("AuthorizationQueryParametersError", long, status=400)


@claim("what boto3 presigns by default in the region of the guide works")
def by_default():
    put("presigned", b"for everyone")
    url = presigned("get_object", by=s3)
    check("X-Amz-Signature=" in url, f"this is no SigV4: {url}")
    same(http(url)[:2], (200, b"for everyone"))


@claim("what boto3 presigns by default in us-east-1, SigV2, is refused clearly")
def version_two():
    put("presigned")
    url = presigned("get_object", by=client(region_name="us-east-1"))
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    check("AWSAccessKeyId" in query and "Signature" in query, f"this is no SigV2: {url}")
    status, body, _ = http(url)
    check(status in (400, 403), f"the status is {status}")
    check("AWS4-HMAC-SHA256" in body.decode(), f"it does not say what to use instead: {body!r}")


@claim("a header signed with SigV2 is refused clearly")
def version_two_header():
    two = client(signature_version="s3")
    answer = refused(("InvalidRequest", "AccessDenied"), two.list_objects_v2, Bucket=BUCKET)
    check("AWS4-HMAC-SHA256" in answer["Error"]["Message"], answer["Error"]["Message"])
