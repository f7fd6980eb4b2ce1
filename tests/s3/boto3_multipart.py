import base64
import hashlib
import io
import zlib

from claims import check, claim, md5, refused, same, some_bytes, status
from world import BUCKET, get, head, keys, put, s3

MIB = 1 << 20
FIVE = 5 * MIB  # the least that a part may have, unless it is the last


SENT = ("ETag", "ChecksumSHA256")  # what a client names of each part to complete the upload


def begin(key):
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    return {"Bucket": BUCKET, "Key": key, "UploadId": upload}


def send(upload, number, body):
    tag = s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"]
    return {"PartNumber": number, "ETag": tag}


def complete(upload, parts, **more):
    return s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **more)


def tag_of(*parts):
    """What S3 gives as the ETag of an object that came in parts."""
    inner = b"".join(hashlib.md5(part).digest() for part in parts)
    return f'"{md5(inner)}-{len(parts)}"'


@claim("upload and download 50 MB in parts")
def fifty():
    data = some_bytes(50 * MIB)
    extra = {"ContentType": "video/x", "Metadata": {"a": "1"}}
    s3.upload_fileobj(io.BytesIO(data), BUCKET, "fifty", ExtraArgs=extra)
    found = head("fifty", ChecksumMode="ENABLED")
    parts = [data[at : at + 8 * MIB] for at in range(0, len(data), 8 * MIB)]
    same(found["ETag"], tag_of(*parts), "the ETag")
    same((found["ContentLength"], found["ContentType"]), (len(data), "video/x"))
    same(found["Metadata"], {"a": "1"})
    back = io.BytesIO()
    s3.download_fileobj(BUCKET, "fifty", back)
    check(back.getvalue() == data, "what came back is not what was sent")
    across = get("fifty", Range=f"bytes={8 * MIB - 3}-{8 * MIB + 2}")["Body"].read()
    same(across, data[8 * MIB - 3 : 8 * MIB + 3], "a range across the border of two parts")


@claim("an object in parts has the checksum of its parts' checksums")
def checksum():
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="sums", ChecksumAlgorithm="SHA256")
    upload = {"Bucket": BUCKET, "Key": "sums", "UploadId": upload["UploadId"]}
    bodies = [some_bytes(FIVE, seed=1), b"the end"]
    parts = []
    for number, body in enumerate(bodies, 1):
        answer = s3.upload_part(**upload, PartNumber=number, Body=body, ChecksumAlgorithm="SHA256")
        check("ChecksumSHA256" in answer, f"part {number} has got no checksum")
        parts.append({"PartNumber": number} | {name: answer[name] for name in SENT})
    complete(upload, parts)
    found = head("sums", ChecksumMode="ENABLED")
    inner = b"".join(hashlib.sha256(body).digest() for body in bodies)
    sums = base64.b64encode(hashlib.sha256(inner).digest()).decode()
    same(found.get("ChecksumSHA256"), f"{sums}-2")
    same(found.get("ChecksumType"), "COMPOSITE")


@claim("an object in parts has a composite CRC32 unless the client asks for that of the whole")
def composite():
    where = {"Bucket": BUCKET, "Key": "composite", "ChecksumAlgorithm": "CRC32"}
    upload = s3.create_multipart_upload(**where)
    same((upload.get("ChecksumAlgorithm"), upload.get("ChecksumType")), ("CRC32", "COMPOSITE"))
    upload = {"Bucket": BUCKET, "Key": "composite", "UploadId": upload["UploadId"]}
    bodies = [some_bytes(FIVE, seed=1), b"the end"]
    parts = []
    for number, body in enumerate(bodies, 1):
        answer = s3.upload_part(**upload, PartNumber=number, Body=body, ChecksumAlgorithm="CRC32")
        names = ("ETag", "ChecksumCRC32")
        parts.append({"PartNumber": number} | {name: answer[name] for name in names})
    inner = b"".join(zlib.crc32(body).to_bytes(4, "big") for body in bodies)
    sums = base64.b64encode(zlib.crc32(inner).to_bytes(4, "big")).decode() + "-2"
    whole = {"ChecksumType": "COMPOSITE"}
    refused("BadDigest", complete, upload=upload, parts=parts, ChecksumCRC32="AAAAAA==-2", **whole)
    other = {"ChecksumType": "FULL_OBJECT"}
    refused("InvalidRequest", complete, upload=upload, parts=parts, **other)
    answer = complete(upload, parts, ChecksumCRC32=sums)
    same((answer.get("ChecksumCRC32"), answer.get("ChecksumType")), (sums, "COMPOSITE"))
    found = head("composite", ChecksumMode="ENABLED")
    same((found.get("ChecksumCRC32"), found.get("ChecksumType")), (sums, "COMPOSITE"))
    same(get("composite", ChecksumMode="ENABLED")["Body"].read(), b"".join(bodies))
    upload = s3.create_multipart_upload(**where, **other)
    same((upload.get("ChecksumAlgorithm"), upload.get("ChecksumType")), ("CRC32", "FULL_OBJECT"))
    upload = {"Bucket": BUCKET, "Key": "composite", "UploadId": upload["UploadId"]}
    sums = base64.b64encode(zlib.crc32(b"whole").to_bytes(4, "big")).decode()
    answer = complete(upload, [send(upload, 1, b"whole")], ChecksumCRC32=sums)
    same((answer.get("ChecksumCRC32"), answer.get("ChecksumType")), (sums, "FULL_OBJECT"))


@claim("parts are listed, may be sent again, and are no object until completed")
def parts():
    upload = begin("parts")
    send(upload, 2, b"the end")
    send(upload, 1, some_bytes(FIVE, seed=1))
    again = some_bytes(FIVE, seed=2)
    first = send(upload, 1, again)
    listed = s3.list_parts(**upload)
    same([part["PartNumber"] for part in listed["Parts"]], [1, 2])
    same([part["Size"] for part in listed["Parts"]], [FIVE, 7])
    same(listed["Parts"][0]["ETag"], first["ETag"])
    pages = s3.get_paginator("list_parts").paginate(**upload, PaginationConfig={"PageSize": 1})
    same([part["PartNumber"] for page in pages for part in page["Parts"]], [1, 2])
    refused("404", head, key="parts")
    check("parts" not in keys(), "it is listed before it is completed")
    answer = complete(upload, [first, {"PartNumber": 2, "ETag": listed["Parts"][1]["ETag"]}])
    same(answer["ETag"], tag_of(again, b"the end"))
    same(get("parts")["Body"].read(), again + b"the end")
    refused("NoSuchUpload", s3.list_parts, **upload)


@claim("only the parts that are named become the object")
def some_parts():
    upload = begin("some parts")
    bodies = [some_bytes(FIVE, seed=n) for n in range(3)]
    sent = [send(upload, number * 10, body) for number, body in enumerate(bodies, 1)]
    complete(upload, [sent[0], sent[2]])
    same(get("some parts")["Body"].read(), bodies[0] + bodies[2])


@claim("uploads under way are listed, and can be aborted")
def abort():
    uploads = [begin("abort/a"), begin("abort/a"), begin("abort/ü b")]
    send(uploads[0], 1, b"x")
    listed = s3.list_multipart_uploads(Bucket=BUCKET, Prefix="abort/")["Uploads"]
    same(
        sorted((item["Key"], item["UploadId"]) for item in listed),
        sorted((upload["Key"], upload["UploadId"]) for upload in uploads),
    )
    for upload in uploads:
        same(status(s3.abort_multipart_upload(**upload)), 204)
    answer = s3.list_multipart_uploads(Bucket=BUCKET, Prefix="abort/")
    same(answer.get("Uploads", []), [])
    refused("NoSuchUpload", s3.upload_part, **uploads[0], PartNumber=1, Body=b"x")
    refused("NoSuchUpload", s3.list_parts, **uploads[0])
    refused("404", head, key="abort/a")


@claim("a list of parts that is wrong does not complete an upload")
def wrong_lists():
    upload = begin("wrong")
    parts = [send(upload, number, some_bytes(FIVE, seed=number)) for number in (1, 2)]
    small = [send(upload, number, b"small") for number in (3, 4)]
    refused("InvalidPartOrder", complete, upload=upload, parts=parts[::-1])
    wrong = {"PartNumber": 1, "ETag": '"00000000000000000000000000000000"'}
    refused("InvalidPart", complete, upload=upload, parts=[wrong, parts[1]])
    unknown = {"PartNumber": 9, "ETag": parts[0]["ETag"]}
    refused("InvalidPart", complete, upload=upload, parts=[parts[0], unknown])
    refused("EntityTooSmall", complete, upload=upload, parts=small)
    refused("MalformedXML", complete, upload=upload, parts=[])
    refused("404", head, key="wrong")
    complete(upload, parts)  # none of it has harmed the upload
    same(head("wrong")["ContentLength"], 2 * FIVE)


@claim("If-None-Match: * completes only where nothing is")
def condition():
    put("there already")
    upload = begin("there already")
    part = send(upload, 1, b"part")
    refused("PreconditionFailed", complete, upload=upload, parts=[part], IfNoneMatch="*")
    same(get("there already")["Body"].read(), b"hello")
    s3.abort_multipart_upload(**upload)


@claim("parts can be copied from objects")
def copied():
    data = some_bytes(12 * MIB)
    put("source of parts", data)
    source = {"Bucket": BUCKET, "Key": "source of parts"}
    upload = begin("copied parts")
    ranges = [(0, FIVE), (FIVE, 2 * FIVE), (3, 10)]
    parts = []
    for number, (first, end) in enumerate(ranges, 1):
        asked = f"bytes={first}-{end - 1}"
        answer = s3.upload_part_copy(
            **upload, PartNumber=number, CopySource=source, CopySourceRange=asked
        )
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    complete(upload, parts)
    wanted = b"".join(data[first:end] for first, end in ranges)
    check(get("copied parts")["Body"].read() == wanted, "the copied parts are not the source's")


@claim("an upload that is not known is refused")
def unknown():
    upload = {"Bucket": BUCKET, "Key": "unknown", "UploadId": "not-an-upload"}
    refused("NoSuchUpload", s3.upload_part, **upload, PartNumber=1, Body=b"x")
    refused("NoSuchUpload", s3.abort_multipart_upload, **upload)
    refused("NoSuchUpload", complete, upload=upload, parts=[{"PartNumber": 1, "ETag": '"0"'}])


@claim("a part's number is between 1 and 10,000")
def numbers():
    upload = begin("numbers")
    for number in (0, 10_001):
        refused("InvalidArgument", s3.upload_part, **upload, PartNumber=number, Body=b"x")
    s3.abort_multipart_upload(**upload)
