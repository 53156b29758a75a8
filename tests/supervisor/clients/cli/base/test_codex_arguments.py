"""What the command line of `codex exec` means, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.clients.cli.base.codex_arguments import (
    ExecWords,
    append_stdin,
    parse_words,
    split_unknown,
    stdin_use,
)

FLAGS, VALUED = {"--json", "-q"}, {"--model", "-m"}


@pytest.mark.parametrize(
    ("typed", "known", "unknown"),
    [
        ("--json hello", "--json hello", []),
        ("--model gpt hello", "--model gpt hello", []),
        ("--model=gpt -mgpt -m gpt", "--model=gpt -mgpt -m gpt", []),
        ("--model --json", "--model --json", []),  # a value may look like an option
        ("--new value --json", "--json", ["--new value"]),
        ("--new=value hello", "hello", ["--new=value"]),
        ("--new --json", "--json", ["--new"]),
        ("--new resume 12", "resume 12", ["--new"]),
        ("-x 1 -", "-", ["-x 1"]),
        ("-- --new value", "-- --new value", []),
        ("--new", "", ["--new"]),
    ],
)
def test_unknown_options_go_with_their_values(typed, known, unknown):
    split = split_unknown(typed.split(), flags=FLAGS, valued=VALUED)
    assert (split.arguments, split.unknown) == (known.split(), unknown)


@given(st.lists(st.sampled_from(["--json", "--new", "-m", "--", "-", "word", "resume", "--a=b"])))
def test_no_word_is_lost(words):
    split = split_unknown(words, flags=FLAGS, valued=VALUED)
    assert sorted([*split.arguments, *" ".join(split.unknown).split()]) == sorted(words)


@pytest.mark.parametrize(
    ("words", "last", "meant"),
    [
        ("", False, ExecWords(resumes=False, session=None, prompt=None)),
        ("hello", False, ExecWords(resumes=False, session=None, prompt="hello")),
        ("resume 12", False, ExecWords(resumes=True, session="12", prompt=None)),
        ("resume 12 on", False, ExecWords(resumes=True, session="12", prompt="on")),
        ("resume on", True, ExecWords(resumes=True, session=None, prompt="on")),
        ("resume", True, ExecWords(resumes=True, session=None, prompt=None)),
    ],
)
def test_words_name_a_prompt_or_a_session(words, last, meant):
    assert parse_words(words.split(), last=last) == meant


@pytest.mark.parametrize(
    "words", ["two words", "resume", "resume 12 two words", "fork 12", "review"]
)
def test_other_words_are_refused(words):
    with pytest.raises(UsageError):
        parse_words(words.split(), last=False)


@pytest.mark.parametrize(
    ("prompt", "is_terminal", "resumes", "use"),
    [
        ("-", True, False, "prompt"),
        (None, True, False, "missing"),
        (None, False, True, "prompt"),
        ("hello", True, False, "unused"),
        ("hello", False, False, "appended"),
        ("hello", False, True, "unused"),
    ],
)
def test_stdin_is_the_prompt_or_stands_behind_it(prompt, is_terminal, resumes, use):
    assert stdin_use(prompt, is_terminal=is_terminal, resumes=resumes) == use


def test_text_of_stdin_is_marked():
    assert append_stdin("Look", "a\nb") == "Look\n\n<stdin>\na\nb\n</stdin>"
    assert append_stdin("Look", " \n") == "Look"
