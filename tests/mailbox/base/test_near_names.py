"""What is said of a name that nobody knows."""

import pytest

from swarm.mailbox.base.near_names import near_or_all, nearest_file


@pytest.mark.parametrize(
    ("wanted", "known", "said"),
    [
        ("modle", ["model", "cwd"], "; did you mean `model`?"),
        ("foo", ["role", "model"], "; known: model, role"),
        ("foo", [], ""),
        ("zzz", [f"key_{n:02}" for n in range(30)], " and 6 more"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_or_with_all(wanted, known, said):
    assert near_or_all(wanted, known).endswith(said)


@pytest.mark.parametrize(
    ("wanted", "known", "near"),
    [
        ("nofile.md", ["wide.md", "tall.md"], ""),
        ("wid.md", ["wide.md", "tall.md"], "wide.md"),
        ("wide", ["wide.md"], "wide.md"),
        ("a.md", ["b.md"], ""),
    ],
)
def test_files_are_not_alike_because_they_end_alike(wanted, known, near):
    assert nearest_file(wanted, known) == near
