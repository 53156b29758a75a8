"""The condition of a hook: for which calls it runs, and that doubt runs it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.roles.parts.hooks.hook_condition import condition_holds, is_condition


@pytest.mark.parametrize(
    ("condition", "names", "subjects", "holds"),
    [
        ("Bash", ("Bash",), ("ls",), True),
        ("Bash", ("Edit",), ("ls",), False),
        ("Bash(git *)", ("Bash",), ("git push", "ls"), True),
        ("Bash(git *)", ("Bash",), ("git",), True),
        ("Bash(git *)", ("Bash",), ("gitk --all",), False),
        ("Bash(git push:*)", ("Bash",), ("git push -f",), True),
        ("Bash(rm -rf [a])", ("Bash",), ("rm -rf a",), False),
        ("Bash(ls)", ("Bash",), None, True),
        ("Edit(*.ts)", ("apply_patch", "Edit"), ("/p/src/a.ts",), True),
        ("Edit(src/*)", ("Edit",), ("/p/src/a.ts",), True),
        ("Edit(./src/**/a.ts)", ("Edit",), ("/p/src/x/a.ts",), True),
        ("Edit(.env)", ("Edit",), ("/p/.env", "/p/b"), True),
        ("Edit(.env)", ("Edit",), ("/p/x.env",), False),
        ("mcp__git__*", ("mcp__git__log",), (), True),
        ("Read(*)", ("Read",), (), True),
        ("Read(a)", ("Read",), (), False),
    ],
)
def test_a_condition_names_calls(condition, names, subjects, holds):
    assert is_condition(condition)
    assert condition_holds(condition, names, subjects, cwd="/p") is holds


@pytest.mark.parametrize("text", ["", "Bash(git", "a b", "Bash(x) && y", "x" * 501])
def test_what_is_no_condition_is_known(text):
    assert not is_condition(text)


@given(st.text(), st.text())
def test_any_condition_and_subject_give_an_answer(condition, subject):
    assert condition_holds(condition, ("Bash",), (subject,)) in (True, False)
