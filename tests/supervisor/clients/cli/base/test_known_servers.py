"""`doctor` and a run know Ollama, LM Studio and llama.cpp by what they say, whatever their port."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from swarm.supervisor.clients.cli.base.provider_checks import probe_server

KNOWN = ("ollama", "lmstudio", "llamacpp")
OLLAMA = {"/api/tags": {"models": [{"name": "qwen3:4b", "details": {}}]}}
LMSTUDIO = {"/api/v0/models": {"data": [{"id": "m", "state": "loaded", "arch": "qwen"}]}}
LLAMACPP = {"/v1/models": {"data": [{"id": "m.gguf", "owned_by": "llamacpp"}]}}
LLAMACPP_PROPS = {"/props": {"default_generation_settings": {}}, "/v1/models": {"data": []}}
VLLM = {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}}
LISTED = {"/v1/models": {"object": "list", "data": [{"id": "m", "owned_by": "library"}]}}


@contextmanager
def serving(answers, otherwise=(404, b"{}")):
    """These paths, and one answer for all others."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.path in answers
            status, body = (200, json.dumps(answers[self.path]).encode()) if known else otherwise
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("ollama", LISTED | OLLAMA),
        ("lmstudio", LISTED | LMSTUDIO),
        ("llamacpp", LLAMACPP),
        ("llamacpp", LLAMACPP_PROPS),
    ],
)
def test_a_known_server_is_known_by_what_it_says(name, answers):
    with serving(answers) as address:
        check = probe_server(name, address)
    assert check.state == "ok", check
    assert "models" in check.detail


def test_lm_studio_without_a_model_is_known_by_its_words_for_an_unknown_path():
    words = b'{"error":"Unexpected endpoint or method. (GET /no-such-path)"}'
    with serving({"/v1/models": {"data": []}}, (200, words)) as address:
        assert probe_server("lmstudio", address).detail.endswith(": 0 models")


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize(
    ("answers", "otherwise"),
    [
        (VLLM, (404, b"{}")),
        ({}, (200, b"<html>It works</html>")),
        ({}, (200, b'{"data": []}')),
        ({}, (200, b'{"models": "no", "data": "list", "default": 1}')),
        ({}, (401, b'{"error": "who are you?"}')),
        ({}, (200, b"[" * 100_000)),
    ],
)
def test_another_server_at_that_port_is_not_counted_as_it(name, answers, otherwise):
    with serving(answers, otherwise) as address:
        check = probe_server(name, address)
    assert check.state == "warn"
    assert f"is no {name}" in check.detail
    assert "model_providers" in check.fix


def test_known_servers_are_not_taken_for_each_other():
    for own, answers in (("ollama", OLLAMA), ("lmstudio", LMSTUDIO), ("llamacpp", LLAMACPP)):
        with serving(LISTED | answers) as address:
            found = [one for one in KNOWN if probe_server(one, address).state == "ok"]
        assert found == [own]


def test_nobody_is_said():
    assert "nobody answers" in probe_server("ollama", "http://127.0.0.1:9/v1").detail


def test_an_answer_that_comes_byte_by_byte_without_an_end_is_nobodys():
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(drip, listener)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        assert "nobody answers" in probe_server("ollama", address).detail


def drip(listener):
    with listener.accept()[0] as connection, suppress(OSError):
        connection.settimeout(0.1)
        while True:
            connection.sendall(b"H")
            with suppress(TimeoutError):
                connection.recv(100)
