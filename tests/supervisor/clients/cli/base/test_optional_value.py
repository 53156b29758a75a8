"""`--isolate` may stand alone: its value follows `=`, and the next word is never taken for it."""

import pytest

from swarm.supervisor.clients.cli.base.optional_value import with_default


@pytest.mark.parametrize(
    ("words", "become"),
    [
        ("--isolate task.md", "--isolate=run task.md"),
        ("task.md --isolate", "task.md --isolate=run"),
        ("--isolate children", "--isolate=run children"),
        ("--isolate=children task.md", "--isolate=children task.md"),
        ("--isolate= task.md", "--isolate= task.md"),
        ("-p --isolate --isolate", "-p --isolate --isolate=run"),
        ("--prompt=--isolate -p", "--prompt=--isolate -p"),
        ("-- --isolate", "-- --isolate"),
        ("--isolated", "--isolated"),
    ],
)
def test_only_a_bare_option_gets_the_usual_value(words, become):
    found = with_default(words.split(), "--isolate", "run", {"-p", "--prompt", "--isolate"})
    assert [*found] == become.split()
