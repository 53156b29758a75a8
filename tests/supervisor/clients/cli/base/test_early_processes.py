"""When processes are begun before a command line is read; and that they are closed but once."""

import pytest

from swarm.supervisor.clients.cli.base.early_processes import needs_processes, take_early_processes


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("run task.md", True),
        ("run -p x --json", True),
        ("resume --last", True),
        ("review --base main", True),
        ("fork abc", True),
        ("", False),
        ("--help", False),
        ("run --help", False),
        ("resume -h", False),
        ("run task.md --detach", False),
        ("--color never run task.md", False),  # it begins later, that is all
        ("ps", False),
        ("show run", False),
    ],
)
def test_only_a_run_in_this_process_needs_them(words, needed):
    assert needs_processes(words.split()) is needed


def test_nothing_is_taken_where_nothing_was_begun():
    assert take_early_processes() is None
