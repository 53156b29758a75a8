"""A script that is too long for one argument reaches its shell whole, and runs as it would."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.short_quotes import MOST_QUOTED
from swarm.worker.exec.exec_outcome import ExecFailed
from swarm.worker.exec.script_arguments import (
    MOST_IN_ONE,
    CommandTooLong,
    check_room,
    fit_script,
)

PADDING = "#" * MOST_IN_ONE
# Each must do the same with a comment behind it that makes it too long for one argument.
SCRIPTS = [
    "echo $0 $# \"$@\"; exit 3", "cat; echo end", "read x; echo [$x]", "set -e\nfalse\necho no",
    "set -u\necho $missing\necho no", "no_such_command", "trap 'echo bye' EXIT; exit 4",
    "#!/bin/sh\necho hi", "cat <<EOF\nx $0\nEOF", "kill -TERM $$", "f() { echo $1; }; f a",
    "exec echo hi", "set -e; (exit 7)", "shift 2; echo $?", "set -- a b; echo $@",
    "IFS=x; echo axb", "echo é 漢 😀", "\n\n  echo a", "false", "if", "echo a\n)\necho b",
    "(echo a", ': "unterminated',
    "& echo a", ";echo a", "echo a; exit", "printf '%s\\n' \"${x-unset}\"; eval 'echo \"$#\"'",
    "echo 'a\\\\b' \"\\$x\" `echo \\\\a`", "case a in a) echo ok;; esac", "( : ) & wait; echo $?",
]  # fmt: skip
SHELLS = [shell for name in ("bash", "sh", "zsh", "ksh", "mksh") if (shell := shutil.which(name))]


def run(argv):
    done = subprocess.run(argv, input=b"given\nmore\n", capture_output=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_long_script_does_what_a_short_one_does(shell, script):
    long = fit_script((shell, "-c", f"{script}\n{PADDING}"))
    assert len(long) > 3
    assert run(long) == run((shell, "-c", f"{script}\n#"))


@pytest.mark.parametrize("shell", SHELLS)
def test_a_long_script_keeps_each_of_its_bytes_and_the_numbers_of_its_lines(shell):
    text = "é漢😀'\"\\$`\t " * 20_000
    script = f"cat <<'EOF'\n{text}\nEOF\nno_such_command"
    done = subprocess.run(fit_script((shell, "-c", script)), capture_output=True, check=False)
    assert done.stdout.decode() == f"{text}\n"
    assert b"4" in done.stderr.partition(b"no_such_command")[0]


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
def test_the_pieces_are_the_script_and_each_fits(unit):
    script = unit * (MOST_IN_ONE // len(unit.encode()) + 1)
    for shell, first in (("/bin/sh", 4), ("/opt/fish", 3)):
        words = fit_script((shell, "-lc", script))
        assert "".join(words[first:]) == script
        assert all(len(word.encode()) < MOST_IN_ONE for word in words)
        assert words[:2] == (shell, "-lc")


@pytest.mark.parametrize(
    "argv", [("bash", "-c", "x" * (MOST_IN_ONE - 1)), ("ls", "a b"), ("bash", "-c", "é" * 65_535)]
)
def test_what_fits_stays_as_it_is(argv):
    assert fit_script(argv) == argv


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("/bin/tcsh", "-c", PADDING), "a script for tcsh has 131,073 bytes"),
        (("bash", PADDING), "one word of a call of bash"),
        (("bash", "-c", "ls", PADDING), "one word of a call of bash"),
        ((PADDING, "-c", "ls"), "one word of a call of ####"),
        (("python3", "-c", PADDING), "a script for python3"),
    ],
)
def test_what_no_known_shell_can_join_is_refused_in_words(argv, what):
    with pytest.raises(CommandTooLong, match=rf"^{what}.* takes 131,072; nothing was started"):
        fit_script(argv)


@pytest.mark.parametrize(
    ("size", "stack_bytes", "fits"),
    [
        (1_900_000, 8 << 20, True), (2_090_000, 8 << 20, False), (6_000_000, -1, True),
        (6_300_000, -1, False), (1_900_000, 1 << 20, False), (120_000, 1 << 10, True),
    ],
)  # fmt: skip
def test_what_the_system_takes_in_all_bounds_a_command_with_its_environment(
    size, stack_bytes, fits
):
    def check(argv, environment):
        check_room(argv, environment, stack_bytes=stack_bytes)

    for argv, environment in ((("sh", "a" * size), {}), (("sh",), {"V": "é" * (size // 2)})):
        if fits:
            check(argv, environment)
        else:
            with pytest.raises(CommandTooLong, match=r"environment has .* bytes, and this machine"):
                check(argv, environment)


def test_an_error_quotes_little_of_a_long_command():
    said = str(ExecFailed(("bash", "-c", "x" * 350_000), "no"))
    assert said.startswith("exec_command failed for `bash -c xxx")
    assert said.endswith("(349,808 more characters)`: no")
    assert len(said) < MOST_QUOTED + 100
