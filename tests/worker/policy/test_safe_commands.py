"""Known-safe and dangerous commands: the tables, and that safe never means more than reading."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.policy.safe_commands import is_safe_command, is_system_program, might_be_dangerous
from swarm.worker.policy.shell_parser import plain_commands, shell_script


def is_known_safe(argv: list[str]) -> bool:
    """Whether the command, or every command of its shell script, only reads. Never raises."""
    if not argv or not is_system_program(argv[0]):
        return False
    script = shell_script(argv)
    if script is None:
        return is_safe_command(argv)
    commands = plain_commands(script)
    return commands is not None and all(is_safe_command(words) for words in commands)


def argv(line: str | list[str]) -> list[str]:
    return line.split() if isinstance(line, str) else line


def script(text: str) -> list[str]:
    return ["bash", "-lc", text]


SAFE = [
    "ls -la",
    "cat a b",
    "/bin/cat a",
    "/usr/bin/ls",
    "cd x",
    "echo hi",
    "grep -R x .",
    "head -n 5 f",
    "id",
    "nl f",
    "numfmt 5",
    "paste a b",
    "pwd",
    "rev f",
    "seq 5",
    "stat f",
    "tac f",
    "tail -n 5 f",
    "tr a b",
    "true",
    "false",
    "uname -a",
    "uniq f",
    "uniq -c f",
    "wc -l",
    "which ls",
    "whoami",
    "cut -c1 f",
    "expr 1",
    "base64 f",
    "base64 -d f",
    "find . -name x",
    "find . -type f -print",
    "rg x",
    "rg -n --files src",
    "rg -g*.gz x",
    "rg -tpy z",
    "rg -A3 z",
    "git status",
    "git log -3 --oneline",
    "git diff HEAD",
    "git show HEAD",
    "git branch",
    "git -C . branch --show-current",
    "git branch -vv --all",
    "git branch --format=%(refname)",
    "git --no-pager log",
    "git log -p",
    "git log --stat",
    "git diff --output-indicator-new=x",
    "sed -n 1,5p f",
    "sed -n 5p",
    "sed -n 1p f",
    script("ls"),
    script("grep -R x -n || true"),
    script("git status && ls; pwd | wc -l"),
    ["/usr/bin/zsh", "-c", "ls"],
    ["sh", "-c", "ls\npwd"],
    script("cat 'a b' \"c d\""),
]
NOT_SAFE = [
    [],
    [""],
    "./ls",
    "/tmp/ls",
    "bin/cat x",
    "/usr/bin/",
    "cargo check",
    "python3 x",
    "touch x",
    "uniq a b",
    "uniq - out",
    "uniq -c a b",
    "base64 -o x f",
    "base64 --output x",
    "base64 --output=x",
    "base64 -ox",
    "base64 --out=x",
    "find . -exec rm {} ;",
    "find . -execdir x ;",
    "find . -ok x ;",
    "find . -okdir x ;",
    "find . -delete",
    "find . -fls x",
    "find . -fprint x",
    "find . -fprint0 x",
    "find . -fprintf x y",
    "rg --pre x y",
    "rg --pre=x y",
    "rg -z x",
    "rg -nz x",
    "rg --search-zip x",
    "rg --hostname-bin x",
    "rg --hostname-bin=x",
    "git",
    "git fetch",
    "git branch new",
    "git branch -d x",
    "git branch -D x",
    "git branch --delete x",
    "git checkout status",
    "git -c a=b status",
    "git -ca=b status",
    "git --config-env=a=b status",
    "git --exec-path=x status",
    "git --git-dir=x status",
    "git --git-dir x status",
    "git --namespace=x log",
    "git --super-prefix=x log",
    "git --work-tree=x status",
    "git --work-tree x status",
    "git -p log",
    "git --paginate log",
    "git log --output=x",
    "git log --output x",
    "git diff --ext-diff",
    "git diff --ext",
    "git show --textconv",
    "git log --exec=x",
    "git log --paginate",
    "git status --git-dir=x",
    "git -C",
    "git -C status",
    "sed -n p f",
    "sed -n 1,5p a b",
    "sed 1p f",
    "sed -i s/a/b/ f",
    "sed -n 1p -i",
    "sed -n 1p -fscript",
    "sed -n 1p --expression=1e",
    "sed -n 1,5w f",
    "sudo ls",
    "env ls",
    "rm x",
    "bash -lc git status",
    "bash x",
    "bash",
    "date",
    "sort -o x",
    "awk 1",
    script("ls > out"),
    script("(ls)"),
    script("'git status'"),
    script("ls; rm x"),
    script("ls $(rm x)"),
    script(""),
    script("ls &"),
    script("X=1 ls"),
    script("ls *"),
    script("./ls"),
    script("bash -lc ls"),
    ["/tmp/bash", "-lc", "ls"],
    ["bash", "-lc", "ls", "x"],
    ["fish", "-c", "ls"],
]


@pytest.mark.parametrize("line", SAFE)
def test_commands_that_only_read_are_safe(line):
    assert is_known_safe(argv(line))


@pytest.mark.parametrize("line", NOT_SAFE)
def test_commands_that_may_write_or_run_something_are_not_safe(line):
    assert not is_known_safe(argv(line))


@pytest.mark.parametrize(
    "line",
    [
        "rm -f x",
        "rm -rf x",
        "rm -fr x",
        "rm -r -f x",
        "rm x -f",
        "rm --force x",
        "rm --fo x",
        "/bin/rm -rf x",
        "sudo rm -rf x",
        "sudo -u root rm -f x",
        "sudo -n X=1 -- rm -rf x",
        "sudo sudo rm -f x",
        script("ls && rm -rf x"),
        script("sudo rm -fr x"),
        ["sudo", "bash", "-c", "rm -rf x"],
    ],
)
def test_removing_by_force_is_dangerous(line):
    assert might_be_dangerous(argv(line))


@pytest.mark.parametrize(
    "line",
    [
        [],
        "rm x",
        "rm -r x",
        "rm -- -f",
        "sudo ls",
        "sudo",
        "sudo -u",
        "ls -f",
        "rmdir -f",
        "git rm -f x",
        script("rm x"),
        script("rm -rf $HOME"),
        script("echo 'rm -rf x'"),
        "sudo " * 20 + "ls",
    ],
)
def test_other_commands_are_not_called_dangerous(line):
    assert not might_be_dangerous(argv(line))


_QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")
HARMLESS_OUTSIDE_QUOTES = re.compile(r"[^$`\\<>(){*?\[#&|]|&&|\|\|?(?!&)|\\\n|(?<=\S)#")


@given(st.text(alphabet="lscathowi -nrg;&|<>(){}$`'\"\\*?[]~#!=\n\t/.0", max_size=40))
def test_a_safe_script_holds_nothing_beyond_plain_commands(text):
    if is_known_safe(script(f"ls {text}")):
        bare = _QUOTED.sub("x", f"ls {text}")
        assert not HARMLESS_OUTSIDE_QUOTES.sub("", bare)


@given(st.lists(st.text(), max_size=6))
def test_no_argv_makes_either_judgement_raise(words):
    is_known_safe(words)
    might_be_dangerous(words)
    might_be_dangerous(["sudo", *words])
