"""Destructive commands are found in any script, and recording ones are told from them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.policy.commit_commands import find_commit_folder
from swarm.worker.policy.destructive_commands import find_destructive_commands
from swarm.worker.policy.git_call import read_git_call
from swarm.worker.policy.script_commands import input_commands
from swarm.worker.policy.shell_parser import plain_commands


def _find(script: str) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    return [
        (one.kind, one.folder, (*one.paths, *one.patterns), one.unknown)
        for one in find_destructive_commands(("bash", "-c", script))
    ]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("rm -rf build", [("remove", "", ("build",), ())]),
        ("rm -r -- -odd b", [("remove", "", ("-odd", "b"), ())]),
        ("cd a && rm -R b/*.o", [("remove", "a", ("b/*.o",), ())]),
        ("cd a; cd b; rm -fr c", [("remove", "a/b", ("c",), ())]),
        ("rm --recursive x", [("remove", "", ("x",), ())]),
        ("rm -rf $X/y", [("remove", "", (), ("$X/y",))]),
        ("rm -rf ~/y", [("remove", "", (), ("~/y",))]),
        ('rm -rf "$HOME"', [("remove", "", (), ("$HOME",))]),
        ("rm -rf a{b,c}", [("remove", "", (), ("a{b,c}",))]),
        ("for i in *; do rm -rf $i; done", [("remove", "", (), ("$i",))]),
        ("sudo -u bob rm -rf q", [("remove", "", ("q",), ())]),
        ("env A=b nice -n 5 rm -rf q", [("remove", "", ("q",), ())]),
        ("bash -c 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("bash -c \"bash -c 'rm -rf q'\"", [("remove", "", ("q",), ())]),
        ('eval "rm -rf q"', [("remove", "", ("q",), ())]),
        ("echo $(rm -rf q)", [("remove", "", ("q",), ())]),
        ("find src -name '*.o' -delete", [("remove", "", ("src",), ())]),
        ("find . -exec rm {} +", [("remove", "", (".",), ())]),
        ("ls | xargs -n 1 rm -f", [("remove", "", (), ("what xargs is fed",))]),
        ("git -C sub clean -fdx", [("clean", "sub", (), ())]),
        ("git -c a=b reset --hard", [("discard", "", (), ())]),
        ("git checkout -- .", [("discard", "", (), ())]),
        ("git restore a.py", [("discard", "", (), ())]),
        ("git switch --discard-changes main", [("discard", "", (), ())]),
        ("git push --force-with-lease", [("push", "", (), ())]),
        ("git push origin :gone", [("push", "", (), ())]),
        ("git push origin +main", [("push", "", (), ())]),
        ("git rebase -i HEAD~3", [("history", "", (), ())]),
        ("git commit --amend --no-edit", [("history", "", (), ())]),
        ("git branch -D old", [("history", "", (), ())]),
        ("git stash clear", [("history", "", (), ())]),
        ("\\rm -rf q", [("remove", "", ("q",), ())]),
        ("r\\m -rf q", [("remove", "", ("q",), ())]),
        ("timeout 5 rm -rf q", [("remove", "", ("q",), ())]),
        ("timeout -k 3 5 setsid rm -rf q", [("remove", "", ("q",), ())]),
        ("make && rm -rf build", [("remove", "", ("build",), ())]),
        ("cd a && bash <<EOF\ncd b\nrm -rf c\nEOF", [("remove", "a/b", ("c",), ())]),
        ("bash -exc 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("bash -o pipefail -c 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("cat <<EOF | sh\nrm -rf $X *.o q\nEOF", [("remove", "", ("q", "*.o"), ("$X",))]),
        ("coproc rm -rf q", [("remove", "", ("q",), ())]),
        ("coproc N { rm -rf q; }", [("remove", "", ("q",), ())]),
        ("time -p rm -rf q", [("remove", "", ("q",), ())]),
        ("time { rm -rf q; }", [("remove", "", ("q",), ())]),
        ("time ! rm -rf q", [("remove", "", ("q",), ())]),
        ("! rm -rf q", [("remove", "", ("q",), ())]),
        ('trap "rm -rf q" EXIT', [("remove", "", ("q",), ())]),
        ("trap -- 'rm -rf q' 0", [("remove", "", ("q",), ())]),
        ("alias x='rm -rf q'; x", [("remove", "", ("q",), ())]),
        ("f() { rm -rf q; }; f", [("remove", "", ("q",), ())]),
        ("git rm -rf q", [("discard", "", (), ())]),
        ("git rm --force -- q", [("discard", "", (), ())]),
        ("git checkout-index -f -a", [("discard", "", (), ())]),
        ("git read-tree --reset -u HEAD", [("discard", "", (), ())]),
        ("git submodule foreach 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("git bisect run rm -rf q", [("remove", "", ("q",), ())]),
        ("busybox rm -rf q", [("remove", "", ("q",), ())]),
        ("/bin/busybox sh -c 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("toybox rm -rf q", [("remove", "", ("q",), ())]),
        ("find . | xargs -I{} rm {}", [("remove", "", (), ("what xargs is fed",))]),
        ("find . -print0 | xargs -0 -n 1 -P4 rm", [("remove", "", (), ("what xargs is fed",))]),
        ("ls | xargs sudo -u a rm", [("remove", "", (), ("what xargs is fed",))]),
        ("ls | xargs git checkout --", [("remove", "", (), ("what xargs is fed",))]),
        ("ls | xargs sh -c 'rm -rf \"$1\"' _", [("remove", "", (), ("$1",))]),
        ("ls | parallel rm {}", [("remove", "", (), ("what parallel is fed",))]),
        ("parallel 'rm -rf {}' ::: q", [("remove", "", ("{}",), ())]),
        ("find . -execdir sudo rm {} +", [("remove", "", (".",), ())]),
        ("find . -exec sh -c 'rm -rf q' ';'", [("remove", "", ("q",), ())]),
        ("fd -e o -X rm -rf q", [("remove", "", ("q",), ())]),
        ("env -S 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("env -i -u A B=c rm -rf q", [("remove", "", ("q",), ())]),
        ("flock /tmp/l rm -rf q", [("remove", "", ("q",), ())]),
        ("flock /tmp/l -c 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("su bob -c 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("taskset 1 chrt -f 5 ionice -c 3 rm -rf q", [("remove", "", ("q",), ())]),
        ("chroot /x rm -rf q", [("remove", "", ("q",), ())]),
        ("watch -n 1 rm -rf q", [("remove", "", ("q",), ())]),
        ("watch 'rm -rf q'", [("remove", "", ("q",), ())]),
        ("eval rm -rf q", [("remove", "", ("q",), ())]),
        ("$'rm' -rf q", [("remove", "", ("q",), ())]),
        ("rsync -a --delete empty/ q", [("remove", "", ("q",), ())]),
        ("sh <<EOF\n$X\nEOF", [("remove", "", (), ("a script that a shell is fed",))]),
        ("echo $X | sh", [("remove", "", (), ("a script that a shell is fed",))]),
    ],
)
def test_what_a_script_would_throw_away_is_found(
    script: str, found: list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]
) -> None:
    assert _find(script) == found


@pytest.mark.parametrize(
    "script",
    [
        "rm one.txt",
        "rm -- -f",
        "echo rm -rf /",
        "git clean -n",
        "git clean --dry-run -fd",
        "git reset HEAD a.py",
        "git reset --soft HEAD~1",
        "git checkout -b new",
        "git restore --staged a.py",
        "git push",
        "git commit -m 'rm -rf /'",
        "git stash",
        "git branch new",
        "git tag v1",
        "find . -name rm",
        "grep -r 'rm -rf' .",
        "ls | xargs wc -l",
        "printf 'git reset --hard\\n'",
        "time make",
        "coproc cat",
        "trap - EXIT",
        "trap 'echo bye' EXIT",
        "alias ll='ls -l'",
        "git rm one.txt",
        "git rm -r --cached src",
        "git rm -rfn src",
        "busybox ls",
        "xargs -I{} cp {} out",
        "env -i A=b make",
        "command -v rm",
        "sudo -E echo rm -rf q",
        "timeout 5 grep -r 'rm -rf' .",
        "rsync -a src/ out",
    ],
)
def test_what_destroys_nothing_is_not_called_destructive(script: str) -> None:
    assert _find(script) == []


def test_a_dry_run_never_has_the_options_that_act() -> None:
    for script in ("git clean -fdx", "git clean --force -d -x -- a", "git clean -qfdX"):
        (one,) = find_destructive_commands(("bash", "-c", script))
        (words,) = one.dry_runs
        assert words[:2] == ("clean", "-n")
        assert not any("f" in word for word in words[2:] if word.startswith("-"))


def test_a_script_too_long_to_be_read_hides_no_removal() -> None:
    padding = "# much ado\n" * 2_000
    (found,) = find_destructive_commands(("bash", "-c", f"{padding}rm -rf a"))
    assert found.unknown == ("a script of 21 KiB, too long to be read",)
    assert find_destructive_commands(("bash", "-c", f"{padding}make all")) == ()


@pytest.mark.parametrize(
    "script",
    [
        "echo a|" * 2_000 + "sh",
        "sh <<A\n" * 900,
        "sh;" * 5_000 + "cat <<E\nx\nE",
        "$(" * 8_000,
        "rm " * 40_000,
        "f() { sh; };" * 1_300 + "f <<E\nx\nE",
        "(" * 4_000 + "sh <<E\nx\nE",
    ],
)
def test_no_script_takes_long_to_be_read(script: str) -> None:
    started = time.process_time()
    find_destructive_commands(("bash", "-c", script))
    input_commands(script)
    assert time.process_time() - started < 3


_PARTS = (
    "bash",
    "<<EOF",
    "EOF",
    "rm -rf a",
    "|",
    "$(",
    ")",
    "cat",
    "<<<",
    "'",
    '"',
    "-c",
    " ",
    "$X",
)


@given(st.lists(st.sampled_from((*_PARTS, "\n", "\n")), max_size=30).map(" ".join))
def test_any_heredocs_are_read_without_an_error(script: str) -> None:
    assert isinstance(find_destructive_commands(("bash", "-c", script)), tuple)
    assert isinstance(input_commands(script), tuple)


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(script: str) -> None:
    assert isinstance(find_destructive_commands(("bash", "-c", script)), tuple)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_any_words_are_read_without_an_error(words: list[str]) -> None:
    assert isinstance(find_destructive_commands(words), tuple)
    read_git_call(words)


@pytest.mark.parametrize(
    ("script", "folder"),
    [
        ("git add -A && git commit -m x", "/w"),
        ("cd sub && git add .", "/w/sub"),
        ("git -C ../other commit -m x", "/other"),
        ("git status && git add a && ls", "/w"),
        ("git stash", "/w"),
        ("git switch -c new", "/w"),
        ("make && git commit -am x", None),
        ("git -c core.fsmonitor=x add a", None),
        ("git --git-dir=/x add a", None),
        ("git status", None),
        ("git push", None),
        ("git commit --amend", None),
        ("git reset --hard", None),
        ("git add a && git -C other add b", None),
        ("git config user.name x", None),
        ("git gc", None),
    ],
)
def test_only_commands_that_just_record_may_use_the_grant(script: str, folder: str | None) -> None:
    commands = plain_commands(script)
    assert commands is not None
    assert find_commit_folder(commands, "/w") == folder


def test_a_loss_behind_many_harmless_ones_is_not_overlooked() -> None:
    found = find_destructive_commands(("bash", "-c", "rm -rf gone; " * 40 + "rm -rf work"))
    assert len(found) == 16
    assert found[-1].unknown == ("26 further commands that throw work away",)
    (hidden,) = find_destructive_commands(("bash", "-c", "true; " * 900 + "rm -rf work"))
    assert hidden.paths == ("work",)
