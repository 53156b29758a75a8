"""swarm's own files are closed to agents wherever these may write, and the start says so."""

import sys
from pathlib import Path

import pytest

from swarm.mailbox.base.installation import (
    InstallationExposure,
    describe_exposure,
    find_exposure,
    installation_paths,
)
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly, WorkspaceWrite
from swarm.supervisor.clients.cli.base.require_sandbox import check_installation
from swarm.supervisor.processes.machine_sandbox import SandboxMissing

PATHS = ("/p/.venv", "/p/worker", "/usr/lib/python3.11")


@pytest.mark.parametrize(
    ("roots", "closed", "opened"),
    [
        (("/p",), ("/p/.venv", "/p/worker"), ()),
        (("/p/src",), (), ()),
        (("/p", "/p/worker"), ("/p/.venv",), ("/p/worker",)),
        (("/",), PATHS, ()),
        ((), (), ()),
    ],
)
def test_what_lies_in_a_root_is_closed_unless_a_person_named_it(
    roots: tuple[str, ...], closed: tuple[str, ...], opened: tuple[str, ...]
) -> None:
    found = find_exposure(WorkspaceWrite(), roots, PATHS)
    assert found == InstallationExposure(closed=closed, open=opened)


def test_a_run_without_a_sandbox_has_a_warning_of_its_own() -> None:
    found = find_exposure(DangerFullAccess(), (), PATHS)
    assert found.open == PATHS
    assert describe_exposure(found) == ""


def test_the_start_says_what_is_closed_and_what_is_not() -> None:
    closed = describe_exposure(find_exposure(WorkspaceWrite(), ("/p",), PATHS))
    assert "agents can read it and not change it: /p/.venv, /p/worker" in closed
    named = describe_exposure(find_exposure(WorkspaceWrite(), ("/p/worker",), PATHS))
    assert "agents may rewrite swarm itself (/p/worker)" in named
    assert describe_exposure(find_exposure(ReadOnly(), (), PATHS)) == ""


def test_a_required_sandbox_refuses_a_run_whose_agents_could_rewrite_swarm() -> None:
    named = find_exposure(WorkspaceWrite(), ("/p/worker",), PATHS)
    check_installation((), named)
    check_installation(("net",), named)
    check_installation(("fs",), find_exposure(WorkspaceWrite(), ("/p",), PATHS))
    with pytest.raises(SandboxMissing, match="agents may rewrite swarm itself"):
        check_installation(("fs",), named)


def test_packages_environment_and_interpreter_are_known() -> None:
    paths = installation_paths()

    def covers(path: str) -> bool:
        real = str(Path(path).resolve())
        return any(real == one or real.startswith(f"{one}/") for one in paths)

    assert covers(sys.prefix)
    assert covers(sys.executable)
    assert covers(sys.modules["swarm.mailbox.base.errors"].__file__ or "")
    assert covers(sys.modules["swarm.mailbox.base.installation"].__file__ or "")
    assert not covers("/home")
