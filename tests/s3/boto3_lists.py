from concurrent.futures import ThreadPoolExecutor

from claims import check, claim, md5, refused, same, status
from world import BUCKET, keys, put, s3

MANY = [f"many/{n:04}" for n in range(1005)]
TREE = ["tree/a", "tree/b/1", "tree/b/2", "tree/c/d/3", "tree/é/4", "tree/z"]


def page(**more):
    return s3.list_objects_v2(Bucket=BUCKET, **more)


def names(answer):
    return [item["Key"] for item in answer.get("Contents", [])]


def prefixes(answer):
    return [item["Prefix"] for item in answer.get("CommonPrefixes", [])]


@claim("list over 1,000 keys, page by page")
def many():
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, MANY))
    first = page(Prefix="many/")
    same((first["KeyCount"], first["IsTruncated"], first["MaxKeys"]), (1000, True, 1000))
    rest = page(Prefix="many/", ContinuationToken=first["NextContinuationToken"])
    same((rest["KeyCount"], rest["IsTruncated"]), (5, False))
    same(names(first) + names(rest), MANY)
    item = first["Contents"][0]
    same((item["Size"], item["ETag"]), (5, f'"{md5(b"hello")}"'))
    same(item["StorageClass"], "STANDARD")
    small = {"PaginationConfig": {"PageSize": 300}}
    same(keys(Prefix="many/", **small), MANY)
    same(page(Prefix="many/", MaxKeys=0)["KeyCount"], 0)
    same(page(Prefix="many/", MaxKeys=5000)["KeyCount"], 1000)


@claim("the first version of list gives the same")
def first_version():
    pages = s3.get_paginator("list_objects").paginate(Bucket=BUCKET, Prefix="many/")
    same([key for answer in pages for key in names(answer)], MANY)


@claim("delete 1,000 keys at once")
def delete_many():
    gone = {"Objects": [{"Key": key} for key in MANY[:1000]]}
    answer = s3.delete_objects(Bucket=BUCKET, Delete=gone)
    same((status(answer), len(answer["Deleted"])), (200, 1000))
    same(keys(Prefix="many/"), MANY[1000:])
    gone["Objects"].append({"Key": "one too many"})
    refused("MalformedXML", s3.delete_objects, Bucket=BUCKET, Delete=gone)


@claim("list with prefix and delimiter")
def tree():
    for key in TREE:
        put(key)
    same(keys(Prefix="tree/b"), ["tree/b/1", "tree/b/2"])
    answer = page(Prefix="tree/", Delimiter="/")
    same(names(answer), ["tree/a", "tree/z"])
    same(prefixes(answer), ["tree/b/", "tree/c/", "tree/é/"])
    same(answer["KeyCount"], 5, "the number of keys and prefixes")
    same(prefixes(page(Prefix="tree", Delimiter="/")), ["tree/"])
    same(prefixes(page(Prefix="tree/", Delimiter="b/")), ["tree/b/"])
    same(names(page(Prefix="nothing there/")), [])


@claim("a page with a delimiter counts prefixes, and goes on after them")
def tree_pages():
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=BUCKET, Prefix="tree/", Delimiter="/", PaginationConfig={"PageSize": 1}
    )
    found = [entry for answer in pages for entry in names(answer) + prefixes(answer)]
    same(found, ["tree/a", "tree/b/", "tree/c/", "tree/z", "tree/é/"])
    pages = s3.get_paginator("list_objects").paginate(
        Bucket=BUCKET, Prefix="tree/", Delimiter="/", PaginationConfig={"PageSize": 2}
    )
    found = [entry for answer in pages for entry in names(answer) + prefixes(answer)]
    same(sorted(found), sorted(["tree/a", "tree/b/", "tree/c/", "tree/é/", "tree/z"]))


@claim("list after a key, which need not be there")
def start_after():
    same(keys(Prefix="tree/", StartAfter="tree/b/1"), TREE[2:4] + ["tree/z", "tree/é/4"])
    same(keys(Prefix="tree/", StartAfter="tree/b/"), TREE[1:4] + ["tree/z", "tree/é/4"])
    same(page(StartAfter="tree/b/1")["StartAfter"], "tree/b/1")


@claim("keys are listed in the order of their UTF-8 bytes")
def order():
    # The last two change places when somebody compares UTF-16.
    wanted = [f"order/{end}" for end in ("", "A", "Z", "a", "é", "\uff61", "\U00010437")]
    for key in reversed(wanted):
        put(key)
    same(keys(Prefix="order/"), wanted)


@claim("a continuation token that is none is refused")
def no_token():
    refused("InvalidArgument", s3.list_objects_v2, Bucket=BUCKET, ContinuationToken="nonsense")


@claim("what was listed is gone when it is deleted")
def gone():
    for key in keys():
        s3.delete_object(Bucket=BUCKET, Key=key)
    answer = page()
    check("Contents" not in answer, "something is left")
    same(answer["KeyCount"], 0)
