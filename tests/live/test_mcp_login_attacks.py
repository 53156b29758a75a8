"""Servers that use a login against the person: none gets a token, or leads the hub astray."""

import pytest

from live.test_mcp_login import home, start, stored, typed  # noqa: F401 (fixtures)

pytestmark = pytest.mark.live

HOSTILE = [
    (["metadata=file:///etc/passwd"], "unsupported protocol"),
    (["metadata=http://169.254.169.254/latest/meta-data"], "not public (closed)"),
    (["metadata=http://[::ffff:169.254.169.254]/"], "not public (closed)"),
    (["endpoint=http://169.254.169.254/token"], "not public (closed)"),
    (["named_issuer=https://other.example"], "issuer mismatch"),
    (["iss=https://other.example"], "iss mismatch"),
    (["resource=https://other.example/mcp"], "does not match"),
    (["size=2000000"], "over 1 MiB"),
    (["coding=gzip"], "unasked coding"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words"), HOSTILE, ids=lambda value: str(value)[:50])
def test_a_hostile_login_ends_in_words_and_leaves_no_token(options, words, start, typed, home):  # noqa: F811
    server = start(*options)
    code, out, err = typed("login", "api", "--timeout", "20")
    assert (code, out) == (1, "")
    assert words in err
    assert "Traceback" not in err
    assert stored(home, server) is None
