"""Signatures are those of AWS: its published test suite, its own library, and a verifier that works
from what arrives.
"""

from datetime import UTC, datetime

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from support.aws_verifier import AwsVerifier
from swarm.worker.parts.clouds.aws_signing import AwsKeys, AwsScope, UnsignedRequest, sign_request

KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SCOPE = AwsScope("us-east-1", "service")
AT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
HOST = {"host": "example.amazonaws.com"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
# The names of the cases in AWS's test suite for Signature Version 4.
PUBLISHED = {
    "get-vanilla": (
        UnsignedRequest("GET", "/", HOST, b""),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "post-vanilla": (
        UnsignedRequest("POST", "/", HOST, b""),
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    "get-vanilla-query-order-key-case": (
        UnsignedRequest("GET", "/?Param2=value2&Param1=value1", HOST, b""),
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-utf8": (
        UnsignedRequest("GET", "/\u1234", HOST, b""),
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
    "get-slash-dot-slash": (
        UnsignedRequest("GET", "/./", HOST, b""),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "get-relative-relative": (
        UnsignedRequest("GET", "/example1/example2/../..", HOST, b""),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "post-x-www-form-urlencoded": (
        UnsignedRequest("POST", "/", HOST | FORM, b"Param1=value1"),
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_cases_have_their_published_signatures(name):
    request, signature = PUBLISHED[name]
    added = sign_request(request, KEYS, SCOPE, AT)
    assert added["authorization"].endswith(f"Signature={signature}")
    assert added["x-amz-date"] == "20150830T123600Z"


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_verifier_of_these_tests_takes_the_published_signatures_and_no_others(name):
    request, signature = PUBLISHED[name]
    verifier = AwsVerifier({KEYS.access_key_id: (KEYS.secret_access_key, "")}, *SCOPE, now=AT)
    names = ";".join(sorted({*request.headers, "x-amz-date"}))
    credential = f"{KEYS.access_key_id}/20150830/us-east-1/service/aws4_request"
    said = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature="
    sent = {**request.headers, "x-amz-date": "20150830T123600Z"}
    right = sent | {"authorization": said + signature}
    assert verifier.problem(request.method, request.target, right, request.body) == ""
    wrong = sent | {"authorization": said + signature[::-1]}
    assert verifier.problem(request.method, request.target, wrong, request.body)
    assert verifier.problem(request.method, request.target, right, request.body + b"x")


SEGMENT = st.text("abcXYZ09-._~", min_size=1, max_size=8).filter(lambda one: set(one) != {"."})
TARGETS = st.builds(
    lambda path, query: "/" + "/".join(path) + (f"?{'&'.join(query)}" if query else ""),
    st.lists(SEGMENT | st.just("a%3Ab"), max_size=4),
    st.lists(st.builds("{}={}".format, SEGMENT, SEGMENT | st.just("")), max_size=3, unique=True),
)


@given(TARGETS, st.binary(max_size=50), st.sampled_from(["", "token/+=="]))
def test_awss_own_library_signs_alike_and_the_verifier_takes_it(target, body, token):
    keys = KEYS._replace(session_token=token)
    added = sign_request(UnsignedRequest("POST", target, HOST, body), keys, SCOPE, AT)
    theirs = AWSRequest("POST", f"https://example.amazonaws.com{target}", data=body)
    theirs.context["timestamp"] = added["x-amz-date"]
    signer = SigV4Auth(Credentials(keys[0], keys[1], token or None), "service", "us-east-1")
    theirs.headers["X-Amz-Date"] = added["x-amz-date"]
    if token:
        theirs.headers["X-Amz-Security-Token"] = token
    canonical = signer.canonical_request(theirs)
    signature = signer.signature(signer.string_to_sign(theirs, canonical), theirs)
    assert added["authorization"].endswith(f"Signature={signature}")
    verifier = AwsVerifier({keys[0]: (keys[1], token)}, *SCOPE, now=AT)
    assert verifier.problem("POST", target, HOST | added, body) == ""
