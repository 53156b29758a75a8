"""Servers that use a login against the person: none gets a token, or leads the hub astray."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

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


class _Redirect(BaseHTTPRequestHandler):
    """Sends every request to another origin, and notes to which port each came."""

    other = 0
    arrived: ClassVar[list[int]] = []

    def do_POST(self):
        self.arrived.append(self.connection.getsockname()[1])
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:{self.other}/mcp")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        return


def test_a_server_that_sends_requests_to_another_origin_is_not_followed(typed, home):  # noqa: F811
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), _Redirect) as server,
        ThreadingHTTPServer(("127.0.0.1", 0), _Redirect) as other,
    ):
        _Redirect.other = other.server_port
        for one in (server, other):
            Thread(target=one.serve_forever, daemon=True).start()
        (home / "config.toml").write_text(
            f'[mcp_servers.api]\nurl = "http://127.0.0.1:{server.server_port}/mcp"\n'
        )
        code, _, err = typed("tools", "api")
        for one in (server, other):
            one.shutdown()
    assert code == 1
    assert "not followed" in err
    assert set(_Redirect.arrived) == {server.server_port}
