"""What each HTTP status means: the kind of failure, who waits, and whether it is tried again.

The kinds are those of docs/providers.md; a run whose task failed by one of them ends with code 5,
unless it is the conversation itself that does not fit (`context_window_exceeded`,
`invalid_image`).
"""

import re

import msgspec
import pytest

from support.paths import ROOT
from swarm.worker.gateway.failures import FailureOrigin, classify_status

FINAL = (False, "final")
ALONE = (True, "request")
ALL = (True, "everyone")

STATUSES = [
    (201, "bad_request", FINAL),
    (204, "bad_request", FINAL),
    (206, "bad_request", FINAL),
    (301, "bad_request", FINAL),
    (304, "bad_request", FINAL),
    (307, "bad_request", FINAL),
    (400, "bad_request", FINAL),
    (401, "unauthorized", FINAL),
    (402, "bad_request", FINAL),
    (403, "unauthorized", FINAL),
    (404, "bad_request", FINAL),
    (405, "bad_request", FINAL),
    (408, "other", ALONE),
    (409, "other", ALONE),
    (410, "bad_request", FINAL),
    (413, "bad_request", FINAL),
    (415, "bad_request", FINAL),
    (418, "bad_request", FINAL),
    (422, "bad_request", FINAL),
    (425, "other", ALONE),
    (429, "overloaded", ALL),
    (500, "other", ALONE),
    (501, "other", ALONE),
    (502, "other", ALONE),
    (503, "overloaded", ALL),
    (504, "other", ALONE),
    (529, "overloaded", ALL),
    (599, "other", ALONE),
    (999, "other", ALONE),
]


@pytest.mark.parametrize(("status", "kind", "then"), STATUSES)
@pytest.mark.parametrize("body", [b"", b"{}", b"<html>no</html>", b"\xff\xfe\x00", b"[" * 9000])
def test_each_status_has_its_kind_whatever_its_body(status, kind, then, body):
    failure = classify_status(status, {}, body, origin=FailureOrigin("P", "http://x/v1"))
    assert (failure.kind, failure.retryable, failure.scope) == (kind, *then)
    assert failure.http_status == status
    assert f"P answered {status}" in failure.message


def test_the_page_of_providers_tells_every_kind_of_a_status():
    page = (ROOT / "docs" / "providers.md").read_text()
    told = set(re.findall(r"`([a-z_]+)`", page))
    assert {kind for _, kind, _ in STATUSES} <= told


@pytest.mark.parametrize(
    ("error", "window"),
    [
        ({"message": "This model's maximum context length is 8192 tokens. However, you requested "
                     "9,001 tokens"}, 8192),
        ({"message": "the request exceeds the available context size (16384 tokens), try "
                     "increasing it"}, 16384),
        ({"message": "the request exceeds the available context size", "n_ctx": 16384}, 16384),
        ({"message": "model is loaded with context length of only 4096 tokens, which exceeds the "
                     "context window"}, 4096),
        ({"message": "prompt is too long: 208310 tokens > 200000 maximum"}, 200000),
        ({"message": "context length exceeded: > 1,048,576"}, 1048576),
        ({"code": "context_length_exceeded", "message": "too long by 12 tokens"}, None),
        ({"message": "context window exceeded", "n_ctx": "many"}, None),
    ],
)  # fmt: skip
def test_the_window_that_a_refusal_names_is_read(error, window):
    body = msgspec.json.encode({"error": error | {"code": "context_length_exceeded"}})
    failure = classify_status(400, {}, body, origin=FailureOrigin("P", "http://x/v1"))
    assert (failure.kind, failure.window_tokens) == ("context_window_exceeded", window)
