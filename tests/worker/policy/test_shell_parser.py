"""The word-only subset: what is read, what is not, and that bash agrees with every reading."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.policy.shell_parser import (
    MAX_SCRIPT_BYTES,
    HeredocCall,
    heredoc_call,
    heredoc_command,
    plain_commands,
    shell_script,
)
from swarm.worker.policy.shell_quoting import join_words, split_words


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("ls", [["ls"]]),
        ("ls -la;", [["ls", "-la"]]),
        ("a && b || c | d ; e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("cat 'a b' \"c d\" ''", [["cat", "a b", "c d", ""]]),
        ("cat 'it'\"'\"'s'", [["cat", "it's"]]),
        ('rg -g"*.py" x', [["rg", "-g*.py", "x"]]),
        ("head -n 20 f", [["head", "-n", "20", "f"]]),
        ('echo "a\n\n b"', [["echo", "a\n\n b"]]),
        ("ls \\\n  src", [["ls", "src"]]),
        ("echo a=b a#", [["echo", "a=b", "a#"]]),
        ("ls \\\n\nrm x", [["ls"], ["rm", "x"]]),
        ("ls a~ -", [["ls", "a~", "-"]]),
        ("echo é 'ü'", [["echo", "é", "ü"]]),
        ("echo '$x `y` \\z *'", [["echo", "$x `y` \\z *"]]),
    ],
)
def test_plain_scripts_are_read_as_their_words(script, commands):
    assert plain_commands(script) == tuple(tuple(words) for words in commands)


@pytest.mark.parametrize(
    "script",
    [
        "",
        " ",
        "ls &",
        "a |& b",
        "(ls)",
        "{ ls; }",
        "ls > f",
        "ls 2>&1",
        "ls < f",
        "cat <<E\nx\nE",
        "cat <<< x",
        "cat <(ls)",
        "ls $x",
        "ls ${x}",
        "ls $(x)",
        "ls `x`",
        'ls "$x"',
        'ls "`x`"',
        "ls $'a'",
        'ls $"a"',
        "X=1 ls",
        "X=1",
        "ls # c",
        "! ls",
        "if a; then b; fi",
        "for a in b; do c; done",
        "f() { ls; }",
        "[[ a ]]",
        "[ a ]",
        "((1))",
        "ls *",
        "ls a?",
        "ls [a]",
        "ls {a,b}",
        "ls ~",
        "ls ~/x",
        "dd if=~/x",
        "ls a:~",
        "ls ] ]",
        "ls a\\ b",
        'ls "a\\"b"',
        "\\ls",
        "'ls'",
        '"ls"',
        "l's'",
        "ls '",
        'ls "',
        "ls &&",
        "| ls",
        "ls a\\\nb",
        "ls\r",
        "ls\rrm",
        "ls\x0brm",
        "ls\x00",
        "\ud800",
        "case a in b) c;; esac",
        "ls;;",
        "a && && b",
        "x" * (MAX_SCRIPT_BYTES + 1),
    ],
)
def test_anything_beyond_plain_words_is_not_read_at_all(script):
    assert plain_commands(script) is None


BARE = "pab1-=#!])%^@+,./~:; \n\t'\"\r*><(`}\\é\xa0"
LONGER = ["&&", "{}", "a=b", "10#", "''", '""', "then", "time ", "$x", "'x y'", "\\\n", "; p b"]
PIECES = st.sampled_from([*BARE, *LONGER])


@given(st.lists(PIECES, max_size=12))
def test_bash_finds_the_same_words_in_every_script_that_is_read(pieces):
    script = "p " + "".join(pieces)
    commands = plain_commands(script)
    if commands is None or any(words[0] != "p" for words in commands):
        return
    shell = f'p() {{ printf \'%s\\0\' "$#" "$@"; }}\n{script}'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=20)
    said = "".join(
        f"{len(words) - 1}\0" + "".join(f"{w}\0" for w in words[1:]) for words in commands
    )
    if b"syntax error" in done.stderr:  # bash ran what stands above the fault
        assert said.startswith(done.stdout.decode())
    else:
        assert done.stdout.decode() == said


@given(st.text(max_size=80))
def test_no_text_makes_any_reader_raise(text):
    plain_commands(text)
    heredoc_call(text)
    heredoc_command(text)
    split_words(text)
    join_words([text])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("python3 <<EOF\nx\nEOF", ["python3"]),
        ("python3 - <<EOF\nx\nEOF", ["python3", "-"]),
        ("cat <<'EOF' -n\nx\nEOF", ["cat", "-n"]),
        ("cat <<EOF > out\nx\nEOF", ["cat"]),
        ("python3 - <<EOF\n$(rm x)\nEOF", None),
        ("cat <<EOF && ls\nx\nEOF", None),
        ("cat <<EOF\nx\nEOF\nls", None),
        ("cat $X <<EOF\nx\nEOF", None),
        ("cat <<EOF *\nx\nEOF", None),
        ("ls", None),
        ("cat <<< x", None),
    ],
)
def test_one_command_that_is_fed_a_heredoc_gives_its_words(script, words):
    assert heredoc_command(script) == (None if words is None else tuple(words))


def test_a_heredoc_call_keeps_its_body_as_written():
    script = "cd 'a b' && apply_patch <<'EOF'\n $x\n\ty\n\nEOF\n"
    assert heredoc_call(script) == HeredocCall(name="apply_patch", body=" $x\n\ty", folder="a b")


def test_a_heredoc_call_may_be_of_any_length():
    body = "x" * (2 * MAX_SCRIPT_BYTES)
    assert heredoc_call(f"name <<E\n{body}\nE") == HeredocCall(name="name", body=body)


@pytest.mark.parametrize(
    "script",
    ["a <<E\nx\n E", "a <<E\nx\nEE", "a <<E", "a <<\\E\nx\nE", "a $x <<E\nx\nE", "<<E\nx\nE",
     "a <<E\nE\nE", "(a) <<E\nx\nE", "a | b <<E\nx\nE", "cd x && cd y && a <<E\nx\nE"],
)  # fmt: skip
def test_no_other_form_is_a_heredoc_call(script):
    assert heredoc_call(script) is None


@pytest.mark.parametrize(
    ("argv", "script"),
    [
        (["bash", "-lc", "x"], "x"),
        (["/usr/bin/zsh", "-c", "x"], "x"),
        (["sh", "-c", "x"], "x"),
        (["bash", "-c", "x", "y"], None),
        (["bash", "-l", "x"], None),
        (["fish", "-c", "x"], None),
        (["bash"], None),
        ([], None),
    ],
)
def test_a_shell_call_is_three_words_of_a_known_shell(argv, script):
    assert shell_script(argv) == script


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["ls", "-la", "a/b.c", "x:y@z+_]"], "ls -la a/b.c x:y@z+_]"),
        ([""], "''"),
        (["a b", "-F,", "*"], "'a b' '-F,' '*'"),
        (["it's"], '"it\'s"'),
        (["a\\b"], '"a\\\\b"'),
        (["'\"'"], '"\'\\"\'"'),
        (["a^b"], "a'^b'"),
        (["it's $x"], "\"it's \"'$x'"),
        (["é"], "'é'"),
    ],
)
def test_words_are_quoted_only_where_they_need_it(words, line):
    assert join_words(words) == line


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_joined_line_splits_into_the_same_words(words):
    line = join_words(words)
    assert shlex.split(line) == words
    assert split_words(line) == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('a \'b c\' "d\\"e" f#g', ["a", "b c", 'd"e', "f#g"]),
        ("a #b c\nd", ["a", "d"]),
        ("ls \\\n src", ["ls", "", "src"]),
        ("a\\ b", ["a b"]),
        ("'a", None),
        ('"a', None),
        ("a\\", None),
        ("", []),
    ],
)
def test_a_line_is_split_as_a_shell_would(line, words):
    assert split_words(line) == words
