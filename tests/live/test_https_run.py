"""A run whose provider speaks HTTPS, with a certificate that only SSL_CERT_FILE vouches for."""

import json
import ssl
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import trio

pytestmark = pytest.mark.live
LIMIT_S = 60
PEM = str(Path(__file__).with_name("index_test.pem"))
ITEM = {"type": "message", "id": "m", "role": "assistant",
        "content": [{"type": "output_text", "text": "said under TLS"}]}  # fmt: skip
ANSWER = b"".join(
    b"data: " + json.dumps(event).encode() + b"\n\n"
    for event in (
        {"type": "response.output_item.done", "item": ITEM},
        {"type": "response.completed", "response": {"id": "r"}},
    )
)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_):
        pass


@contextmanager
def served():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(PEM)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def configure(rig, port):
    (rig.home / "config.toml").write_text(
        'model = "m"\nmodel_provider = "b"\n[model_providers.b]\nname = "b"\n'
        f'base_url = "https://127.0.0.1:{port}/v1"\n'
        "request_max_retries = 0\nstream_max_retries = 0\n"
    )


async def test_a_provider_with_a_certificate_of_its_own_answers(rig):
    rig.environment["SSL_CERT_FILE"] = PEM
    with served() as port, trio.fail_after(LIMIT_S):
        configure(rig, port)
        ended = await (await rig.run("b")).wait_end()
    assert (ended.code, ended.out.strip()) == (0, "said under TLS"), ended.err


async def test_a_provider_whose_certificate_nobody_vouches_for_gets_no_request(rig):
    with served() as port, trio.fail_after(LIMIT_S):
        configure(rig, port)
        ended = await (await rig.run("b")).wait_end()
    assert ended.code == 5
    assert "certificate" in ended.err.lower()


async def test_certificates_that_cannot_be_read_are_named(rig):
    rig.environment["SSL_CERT_FILE"] = str(rig.folder / "none.pem")
    with served() as port, trio.fail_after(LIMIT_S):
        configure(rig, port)
        ended = await (await rig.run("b")).wait_end()
    assert ended.code == 5
    assert "none.pem" in ended.err
