"""Bytes that no edit names stay: line ends, marks, missing newlines, names, mounts, attributes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from swarm.mailbox.protocol.items import FunctionCall
from swarm.worker.parts.patch.apply import apply_verified, read_file
from swarm.worker.parts.patch.verify import VerifiedPatch, verify_patch
from swarm.worker.tools.edit_file import EditFileArguments, write_patch
from swarm.worker.tools.trained_calls import meant_call

TEXTS = [
    "", "\n", "one", "one\n", "a\r\nb\r\n", "a\r\nb", "a\nb\r\nc\rd\n", "a\x0cb\n\x0c\n",
    'const a = "x\u2028y";\n', "\x85a\x85\n", "a\x1cb\x1d\x1ec\n", "a\x0bb", "\r", "\r\n", "x\r",
    "\ufeffa\nb\n", "\n\n\n", "a\n\n", " a \t\n+b\n-c\n*** End Patch\n@@\n\\ x\n", "\u2029",
]  # fmt: skip


def write(folder: Path, patch: str) -> str:
    verified = verify_patch(patch, folder, read_file)
    assert isinstance(verified, VerifiedPatch), verified
    return apply_verified(verified, may_write=lambda path: True).stderr


def patch_of(tool: str, fields: dict[str, object]) -> str:
    call = FunctionCall(call_id="c", name=tool, arguments=msgspec.json.encode(fields).decode())
    meant = meant_call(call)
    assert isinstance(meant, FunctionCall)
    return msgspec.json.decode(meant.arguments)["input"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\rb\rc\r", b"a\rX\rc\r"),
        (b"b\r", b"X\r"),
        (b"a\r\nb\r", b"a\r\nX\r"),
        (b"a\r\nb", b"a\r\nX"),
        (b"a\nb", b"a\nX"),
        (b"a\nb\r\r", b"a\nX\r\r"),
    ],
)
def test_an_edit_of_a_last_line_without_newline_keeps_what_stands_behind_it(
    tmp_path, before, after
):
    (tmp_path / "f").write_bytes(before)
    edit = EditFileArguments(path="f", old_text="b", new_text="X")
    assert write(tmp_path, write_patch(before.decode(), edit)) == ""
    assert (tmp_path / "f").read_bytes() == after


@pytest.mark.parametrize("text", TEXTS)
def test_a_written_file_has_exactly_the_bytes_that_were_given(tmp_path, text):
    for tool, fields in (
        ("write_file", {"path": "f", "content": text}),
        ("str_replace_editor", {"command": "create", "path": "f", "file_text": text}),
    ):
        assert write(tmp_path, patch_of(tool, fields)) == ""
        assert (tmp_path / "f").read_bytes() == text.encode()
    patch = write_patch(None, EditFileArguments(path="g", old_text="", new_text=text))
    assert write(tmp_path, patch) == ""
    assert (tmp_path / "g").read_bytes() == text.encode()


@pytest.mark.parametrize("rest", ["", *TEXTS])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_an_edit_of_a_line_leaves_every_other_byte(tmp_path, rest, end, mark):
    before = f"{mark}head{end}old{end}{rest}"
    patch = "*** Begin Patch\n*** Update File: f\n@@\n head\n-old\n+new\n*** End Patch"
    edit = write_patch(before, EditFileArguments(path="f", old_text="old", new_text="new"))
    for way in (edit, patch):
        (tmp_path / "f").write_bytes(before.encode())
        assert write(tmp_path, way) == ""
        wanted = f"{mark}head{end}new{end}{rest}"
        found = (tmp_path / "f").read_bytes()
        if way is edit or wanted.endswith("\n"):
            assert found == wanted.encode()
        else:  # a patch ends the last line, as Codex's does
            assert found.startswith(wanted.encode())
            assert found[len(wanted.encode()) :] in (b"\n", b"\r\n")


def test_the_first_line_of_a_file_with_a_mark_is_found_and_the_mark_stays(tmp_path):
    for line in ("one", "\ufeffone"):
        (tmp_path / "f").write_bytes("\ufeffone\r\ntwo\r\n".encode())
        patch = f"*** Begin Patch\n*** Update File: f\n@@\n-{line}\n+1\n two\n*** End Patch"
        assert write(tmp_path, patch) == ""
        assert (tmp_path / "f").read_bytes() == "\ufeff1\r\ntwo\r\n".encode()


def test_context_that_is_found_loosely_keeps_its_own_bytes(tmp_path):
    (tmp_path / "f").write_bytes("\x0cdef f():\t\n    “x”\n    old\n".encode())
    patch = (
        '*** Begin Patch\n*** Update File: f\n@@\n def f():\n     "x"\n-    old\n+    new\n'
        "*** End Patch"
    )
    assert write(tmp_path, patch) == ""
    assert (tmp_path / "f").read_bytes() == "\x0cdef f():\t\n    “x”\n    new\n".encode()


def test_a_file_without_a_last_newline_gets_none_by_an_edit_of_its_last_line(tmp_path):
    (tmp_path / "f").write_bytes(b"a\nlast")
    edit = EditFileArguments(path="f", old_text="last", new_text="LAST")
    assert write(tmp_path, write_patch("a\nlast", edit)) == ""
    assert (tmp_path / "f").read_bytes() == b"a\nLAST"


CHANGE = "*** Begin Patch\n*** Update File: f\n@@\n-old\n+new\n*** End Patch"


def test_all_names_of_a_file_see_the_change(tmp_path):
    (tmp_path / "f").write_text("old\n")
    (tmp_path / "other").hardlink_to(tmp_path / "f")
    assert write(tmp_path, CHANGE) == ""
    assert (tmp_path / "other").read_text() == "new\n"
    assert (tmp_path / "f").samefile(tmp_path / "other")
    assert sorted(os.listdir(tmp_path)) == ["f", "other"]


def test_mode_and_attributes_of_a_file_stay(tmp_path):
    file = tmp_path / "f"
    file.write_text("old\n")
    file.chmod(0o2751)
    os.setxattr(file, "user.note", b"mine")
    assert write(tmp_path, CHANGE) == ""
    assert (file.read_text(), file.stat().st_mode & 0o7777) == ("new\n", 0o2751)
    assert os.getxattr(file, "user.note") == b"mine"


PATCH_A_MOUNT = """
import sys
from pathlib import Path
from swarm.worker.parts.patch.apply import apply_verified, read_file
from swarm.worker.parts.patch.verify import verify_patch
patch = verify_patch(sys.argv[2], Path(sys.argv[1]), read_file)
print(apply_verified(patch, may_write=lambda path: True).stderr, end="")
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a mount namespace")
def test_a_file_that_is_a_mount_is_written_in_place(tmp_path):
    (tmp_path / "outside").write_text("old\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / "f").touch()
    script = 'mount --bind "$1/outside" "$1/project/f" && exec "$2" -c "$3" "$1/project" "$4"'
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", str(tmp_path), sys.executable,
         PATCH_A_MOUNT, CHANGE],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == ""
    assert (tmp_path / "outside").read_text() == "new\n"
    assert os.listdir(project) == ["f"]
