"""parse_command: one table for every example, then the rules that no example shows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.parsed_command import (
    ListFiles,
    ParsedCommand,
    ReadFile,
    Search,
    Unknown,
)
from swarm.worker.policy.command_summary import encode_parsed_commands, parse_command


def read(path: str, cmd: str | None = None, name: str | None = None):
    return ("read", path, name or path.rstrip("/").rsplit("/", 1)[-1], cmd)


def lists(path: str | None = None, cmd: str | None = None):
    return ("list", path, cmd)


def search(query: str, path: str | None = None, cmd: str | None = None):
    return ("search", query, path, cmd)


U = "unknown"
WHOLE = "the whole script"
EXAMPLES = [
    ("cat notes/a.md", read("notes/a.md")),
    ("cat -n notes/a.md", read("notes/a.md")),
    ("cat a.md b.md", U),
    ("cat -- -odd.md", read("-odd.md")),
    ("cat a.md | sed -n '10,20p'", read("a.md", WHOLE)),
    ("cat a.md | head -n 5", read("a.md", "cat a.md")),
    ("cat a.md | wc -l", read("a.md", "cat a.md")),
    ("cat a.md > b.md", U),
    ("cat $HOME/a.md", U),
    ('cat "notes/my file.md"', read("notes/my file.md", "cat 'notes/my file.md'")),
    ("bat --theme Nord src/lib.rs", read("src/lib.rs")),
    ("less -p TODO docs/guide.md", read("docs/guide.md")),
    ("more docs/guide.md", read("docs/guide.md")),
    ("head docs/guide.md", read("docs/guide.md")),
    ("head -n 20 docs/guide.md", read("docs/guide.md")),
    ("head -n20 docs/guide.md", read("docs/guide.md")),
    ("head -20 docs/guide.md", U),
    ("head -c 20 docs/guide.md", U),
    ("tail -n +30 docs/guide.md", read("docs/guide.md")),
    ("tail -n30 docs/guide.md", read("docs/guide.md")),
    ("tail docs/guide.md", read("docs/guide.md")),
    ("tail -f docs/guide.md", U),
    ("nl -ba docs/guide.md", read("docs/guide.md")),
    ("nl docs/guide.md | sed -n '5,9p'", read("docs/guide.md", WHOLE)),
    ("sed -n 5p docs/guide.md", read("docs/guide.md")),
    ("sed -n '5,9p' docs/guide.md", read("docs/guide.md", "sed -n '5,9p' docs/guide.md")),
    ("sed -n -e '5,9p' docs/guide.md", read("docs/guide.md")),
    ("sed -n '/x/p' docs/guide.md", U),
    ("sed -i s/a/b/ docs/guide.md", U),
    ("sed -n '1,5p' a.md | cat", U),
    ("awk '{print $2}' data/t.csv", read("data/t.csv")),
    (
        "awk -F, '{print $2}' data/t.csv",
        read("data/t.csv", "awk '-F,' '{print $2}' data/t.csv"),
    ),
    ("awk 'NR<3'", U),
    ("ls", lists()),
    ("ls -la src/app", lists("app")),
    ("ls ./dist", lists(".")),
    ("ls a b", lists("a")),
    ("ls -I '*.log' src", lists("src")),
    ("eza --long src", lists("src")),
    ("tree -L 2 web/src", lists("web")),
    ("du -d 1 pkg", lists("pkg")),
    ("rg needle", search("needle")),
    ("rg -n needle src", search("needle", "src")),
    (
        'rg -n "foo bar" src/app/main.rs',
        search("foo bar", "main.rs", "rg -n 'foo bar' src/app/main.rs"),
    ),
    ("rg --files", lists()),
    ("rg --files src/lib", lists("lib")),
    ("rg --files -g '*.py' src", lists("src")),
    ("rg -g '*.py' needle src", search("needle", "src")),
    ("rg -A 3 needle src", search("needle", "src")),
    ("rg needle | head -n 20", search("needle", None, "rg needle")),
    ("rg needle src | sort | uniq -c", search("needle", "src")),
    ("rg --files | xargs grep needle", lists(None, "rg --files")),
    ("grep -R needle .", search("needle", ".")),
    ("grep -e needle src", search("needle", "src")),
    ("grep -A 3 needle src/main.rs", search("needle", "main.rs")),
    ("egrep 'a|b' src", search("a|b", "src")),
    ("ag needle src", search("needle", "src")),
    ("fd main", search("main")),
    ("fd src/", lists("src")),
    ("fd main src", search("main", "src")),
    ("fd -t f", lists()),
    ("find .", lists(".")),
    ("find src -type f", lists("src")),
    ("find . -name '*.py'", search("*.py", ".")),
    ("git grep needle src", search("needle", "src")),
    ("git ls-files src/app", lists("app")),
    ("git status", U),
    ("git log -3", U),
    ("python3 -c \"import os; print(os.listdir('.'))\"", lists()),
    ("python3 script.py", U),
    ("cd src && cat main.rs", read("src/main.rs", "cat main.rs")),
    ("cd src && cd app && cat main.rs", read("src/app/main.rs")),
    ("cd src && rg needle", search("needle")),
    ("cd src && cat /abs/x.txt", read("/abs/x.txt")),
    ("cd -- -odd && cat f", read("-odd/f")),
    ("ls && git status", U),
    ("echo hi", U),
    ("echo hi && ls", lists(None, "ls")),
    ("true && ls", lists(None, "ls")),
    ("ls || true", lists(None, "ls")),
    ("ls &", U),
    ("(ls)", U),
    ("FOO=1 ls", U),
    ("ls > out", U),
    ("ls 2>&1", U),
    ("printf x | wc -c", U),
    ("printf '==\\n'; cat a.md", read("a.md")),
    ("yes | rg --files", lists(None, "rg --files")),
    ("ls | nl -ba", lists(None, "ls")),
    ("rg --files | nl -ba | foo", U),
    ("git ls-files | head", lists(None, "git ls-files")),
    ("ls src | xargs -n 1 sed -i s/a/b/", U),
    ("ls src | xargs wc -l", lists("src", "ls src")),
    ('cat a"b"c', read("abc", "cat abc")),
    ('rg -g"*.py" x', search("x", None, "rg '-g*.py' x")),
    (
        "cat packages/app/node_modules/",
        read("packages/app/node_modules/", name="app"),
    ),
    ("ls;", lists(None, "'ls;'")),
    ("ls \\\n src", lists("src", "ls '' src")),
    ("env ls", U),
    ("sudo ls", U),
    ("npm test", U),
    ("wc -l a.md", U),
    ("stat a.md", U),
    ("/bin/cat a.md", U),
    ("cat 'it'\"'\"'s.md'", read("it's.md", 'cat "it\'s.md"')),
]


def shown(meaning: ParsedCommand, cmd: str | None):
    """The meaning in the table's words; `cmd` only where the table names one."""
    said = None if cmd is None else meaning.cmd
    match meaning:
        case ReadFile():
            return ("read", meaning.path, meaning.name, said)
        case ListFiles():
            return ("list", meaning.path, said)
        case Search():
            return ("search", meaning.query, meaning.path, said)
        case Unknown():
            return U


@pytest.mark.parametrize(("script", "expected"), EXAMPLES)
def test_a_script_is_shown_as_what_it_does(script, expected):
    (meaning,) = parse_command(["bash", "-lc", script])
    if expected == U:
        assert meaning == Unknown(cmd=script)
        return
    cmd = script if expected[-1] == WHOLE else expected[-1]
    assert shown(meaning, cmd) == (*expected[:-1], cmd)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("cd src", []),
        ("ls && ls", [ListFiles(cmd="ls")]),
        (
            "cat a.md && cat b.md",
            [
                ReadFile(cmd="cat a.md", name="a.md", path="a.md"),
                ReadFile(cmd="cat b.md", name="b.md", path="b.md"),
            ],
        ),
        (
            "cat a.md; ls src",
            [
                ReadFile(cmd="cat a.md", name="a.md", path="a.md"),
                ListFiles(cmd="ls src", path="src"),
            ],
        ),
        (
            "ls -la | grep foo",
            [ListFiles(cmd="ls -la"), Search(cmd="grep foo", query="foo")],
        ),
        (
            "ls\ncat a.md",
            [ListFiles(cmd="ls"), ReadFile(cmd="cat a.md", name="a.md", path="a.md")],
        ),
    ],
)
def test_several_commands_are_listed_in_order_without_repeats(script, expected):
    assert list(parse_command(["bash", "-lc", script])) == expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["rg", "needle", "src"], Search(cmd="rg needle src", query="needle", path="src")),
        (["yes", "|", "ls"], ListFiles(cmd="ls")),
        (["cd", "a", "&&", "cat", "f"], ReadFile(cmd="cat f", name="f", path="a/f")),
        (["/usr/bin/bash", "-c", "ls"], ListFiles(cmd="ls")),
        (["bash", "-lc", "ls", "x"], Unknown(cmd="bash -lc ls x")),
        (["wc", "-l"], Unknown(cmd="wc -l")),
        (["pwsh", "-NoProfile", "-Command", "dir"], Unknown(cmd="dir")),
        (["cat", "a b"], ReadFile(cmd="cat 'a b'", name="a b", path="a b")),
        (
            ["grep", "-f", "pats", "--", "-x"],
            Search(cmd="grep -f pats -- -x", query="pats", path="-x"),
        ),
        (["ls", "/"], ListFiles(cmd="ls /", path="/")),
    ],
)
def test_an_argv_without_a_shell_is_read_word_by_word(argv, expected):
    assert parse_command(argv) == (expected,)


def test_the_json_names_the_type_and_leaves_out_what_is_absent():
    meanings = parse_command(["bash", "-lc", "cat a/b.md; rg x"])
    assert json.loads(encode_parsed_commands(meanings)) == [
        {"type": "read", "cmd": "cat a/b.md", "name": "b.md", "path": "a/b.md"},
        {"type": "search", "cmd": "rg x", "query": "x"},
    ]


@given(st.lists(st.text(), max_size=6))
def test_no_argv_makes_it_raise(argv):
    parse_command(argv)


@given(st.text(alphabet="lscatrg -n|&;'\"\n\\$<>(){}*ad/.", max_size=60))
def test_no_script_makes_it_raise(script):
    parse_command(["bash", "-lc", script])
