"""Ctrl-C ends every command with one line and 130, also where Trio has wrapped it in groups."""

import pytest

from swarm.mailbox.base.errors import SwarmError
from swarm.supervisor.clients.cli import main

INNER = BaseExceptionGroup("", [KeyboardInterrupt()])


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "swarm: interrupted\n"),
        (BaseExceptionGroup("", [KeyboardInterrupt()]), 130, "swarm: interrupted\n"),
        (
            BaseExceptionGroup(
                "", [BaseExceptionGroup("", [OSError(5, "x"), KeyboardInterrupt()])]
            ),
            130,
            "swarm: interrupted\n",
        ),
        (ExceptionGroup("", [SwarmError("no room")]), 1, "swarm: no room\n"),
        (ExceptionGroup("", [OSError(28, "full", "/a/b")]), 1, "swarm: /a/b: full\n"),
    ],
)
def test_what_trio_wraps_in_groups_is_told_as_what_it_is(monkeypatch, capsys, raised, code, said):
    def fail(**_: object) -> None:
        raise raised

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.run_cli(["ps"]) == code
    assert capsys.readouterr().err == said
