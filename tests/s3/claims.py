"""Runs claims one by one and prints a line for each."""

import hashlib
import os
import random
import sys
import traceback

from botocore.exceptions import BotoCoreError, ClientError

CLAIMS = []


def claim(text):
    """Marks a function as a claim; claims run in the order in which they are written."""

    def mark(function):
        CLAIMS.append((text, function))
        return function

    return mark


class Skip(Exception):
    """Raised by a claim that cannot be tried here, with the reason."""


def check(truth, text):
    if not truth:
        raise AssertionError(text)


def same(got, wanted, what="it"):
    check(got == wanted, f"{what} is {shown(got)}, not {shown(wanted)}")


def shown(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


def refused(code, call, **arguments):
    """The call must fail with one of the codes (a string or a tuple); returns the answer."""
    codes = (code,) if isinstance(code, str) else code
    try:
        call(**arguments)
    except ClientError as error:
        same_code = error.response["Error"]["Code"] in codes
        check(same_code, f"refused, but with {error}, not with {' or '.join(codes)}")
        return error.response
    raise AssertionError(f"accepted, though {' or '.join(codes)} was due")


def status(answer):
    return answer["ResponseMetadata"]["HTTPStatusCode"]


def some_bytes(size, seed=7):
    return random.Random(seed).randbytes(size)


def md5(data):
    return hashlib.md5(data).hexdigest()


def run():
    """Runs all claims, or those with the argument in their text; exits with 1 if one fails."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    failed = []
    for text, function in CLAIMS:
        if wanted not in text:
            continue
        try:
            function()
        except Skip as reason:
            print(f"skipped {text}: {reason}", flush=True)
        except Exception as error:
            failed.append(text)
            # Our own words, the client's and the server's need no stack; a surprise does.
            known = isinstance(error, (AssertionError, BotoCoreError, ClientError))
            why = str(error) if known else traceback.format_exc()
            print(f"FAILED {text}: {why}", flush=True)
        else:
            print(f"ok {text}", flush=True)
    if failed:
        print(f"{os.path.basename(sys.argv[0])}: {len(failed)} claims do not hold", file=sys.stderr)
    sys.exit(1 if failed else 0)
