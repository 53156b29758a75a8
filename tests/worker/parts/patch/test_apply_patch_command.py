"""The apply_patch command as a real process, and the shell forms that are taken for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from swarm.worker.parts.patch.patch_interception import ImplicitPatch, PatchText, intercept_patch

PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
USAGE = "Usage: apply_patch 'PATCH'\n       echo 'PATCH' | apply_patch\n"


def run(folder: Path, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    argv = [sys.executable, "-P", "-m", "swarm.worker.parts.patch.apply_patch_command", *arguments]
    done = subprocess.run(argv, cwd=folder, input=stdin, capture_output=True, timeout=30)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_patch_comes_as_an_argument_or_on_stdin(tmp_path):
    success = (0, "Success. Updated the following files:\nA a\n", "")
    assert run(tmp_path, PATCH) == success
    (tmp_path / "a").unlink()
    assert run(tmp_path, stdin=PATCH.encode()) == success
    assert (tmp_path / "a").read_text() == "x\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        ([], b"", (2, USAGE)),
        (["a", "b"], b"", (2, "Error: apply_patch accepts exactly one argument.\n")),
        ([], b"\xff", (1, "Error: apply_patch requires a UTF-8 PATCH input.\n")),
        (
            ["x"],
            b"",
            (1, "Invalid patch: The first line of the patch must be '*** Begin Patch'\n"),
        ),
        (["*** Begin Patch\n*** End Patch"], b"", (1, "No files were modified.\n")),
    ],
)
def test_wrong_use_and_wrong_patches_have_their_codes(tmp_path, arguments, stdin, expected):
    code, stdout, stderr = run(tmp_path, *arguments, stdin=stdin)
    assert (code, stderr, stdout) == (*expected, "")


def test_hunks_above_a_failing_one_stay_applied(tmp_path):
    patch = PATCH.replace("*** End", "*** Delete File: no\n*** End")
    expected = f"Failed to delete file {tmp_path}/no\n"
    assert run(tmp_path, patch) == (1, "", expected)
    assert (tmp_path / "a").read_text() == "x\n"


HERE = Path("/w")
BODY = f"<<'EOF'\n{PATCH}\nEOF\n"


@pytest.mark.parametrize(
    ("argv", "cwd"),
    [
        (["apply_patch", PATCH], "/w"),
        (["applypatch", PATCH], "/w"),
        (["bash", "-lc", f"apply_patch {BODY}"], "/w"),
        (["/bin/zsh", "-c", f"applypatch {BODY}"], "/w"),
        (["sh", "-c", f"  apply_patch <<EOF\n{PATCH}\n\nEOF"], "/w"),
        (["bash", "-lc", f"cd sub && apply_patch {BODY}"], "/w/sub"),
        (["bash", "-lc", f"cd 'a b' && apply_patch {BODY}"], "/w/a b"),
        (["bash", "-lc", f'cd "/x/.." && apply_patch {BODY}'], "/"),
        (["pwsh", "-NoProfile", "-Command", f"apply_patch {BODY}"], "/w"),
        (["cmd.exe", "/c", f"apply_patch {BODY}"], "/w"),
    ],
)
def test_a_command_that_can_only_be_a_patch_is_taken(argv, cwd):
    assert intercept_patch(argv, HERE) == PatchText(text=PATCH, cwd=cwd)


@pytest.mark.parametrize("argv", [[PATCH], ["bash", "-lc", PATCH], ["bash", "-lc", f"\n{PATCH}\n"]])
def test_a_bare_patch_is_answered_with_how_to_call_the_tool(argv):
    found = intercept_patch(argv, HERE)
    assert found == ImplicitPatch()
    assert found.message.endswith('Rerun as ["apply_patch", "<patch>"]')


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["ls"],
        ["apply_patch"],
        ["apply_patch", PATCH, "x"],
        ["bash", "-lc", f"apply_patch - {BODY}"],
        ["bash", "-lc", f"apply_patch x {BODY}"],
        ["bash", "-lc", f"cd sub; apply_patch {BODY}"],
        ["bash", "-lc", f"cd sub || apply_patch {BODY}"],
        ["bash", "-lc", f"cd a b && apply_patch {BODY}"],
        ["bash", "-lc", f"cd $X && apply_patch {BODY}"],
        ["bash", "-lc", f"ls && cd sub && apply_patch {BODY}"],
        ["bash", "-lc", f"apply_patch {BODY}ls"],
        ["bash", "-lc", f"ls\napply_patch {BODY}"],
        ["bash", "-lc", f"apply_patch <<'EOF' > out\n{PATCH}\nEOF"],
        ["bash", "-lc", f"apply_patch <<'EOF' && ls\n{PATCH}\nEOF"],
        ["bash", "-lc", f"apply_patch <<'EOF' x\n{PATCH}\nEOF"],
        ["bash", "-lc", f"apply_patch <<-EOF\n{PATCH}\nEOF"],
        ["bash", "-lc", f"X=1 apply_patch {BODY}"],
        ["bash", "-lc", "echo apply_patch"],
        ["bash", "-c", "-l", f"apply_patch {BODY}"],
    ],
)
def test_every_other_command_is_left_to_the_shell(argv):
    assert intercept_patch(argv, HERE) is None
