"""Programs that run outside of a sandbox lie where no agent may write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.mailbox.base.held_programs import (
    HeldProgram,
    Lookup,
    UnheldProgram,
    find_own_program,
    find_program,
    find_writable_places,
    held_environment,
    why_unheld,
)
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly, WorkspaceWrite


class Machine:
    """A project that agents may write, and a folder of programs that they may not."""

    def __init__(self, folder: Path) -> None:
        self.project, self.system = folder / "project", folder / "system"
        self.venv = self.project / ".venv/bin"
        for one in (self.venv, self.system, self.project / ".swarm"):
            one.mkdir(parents=True)

    def lookup(self, *folders: Path | str) -> Lookup:
        places = find_writable_places(WorkspaceWrite(), str(self.project))
        return Lookup(path=":".join(map(str, folders)), cwd=str(self.project), places=places)

    def program(self, path: Path, text: str = "\x7fELF") -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path.resolve())


def test_a_program_outside_of_the_roots_is_held_by_its_absolute_path(machine: Machine) -> None:
    tool = machine.program(machine.system / "tool")
    assert find_program("tool", machine.lookup(machine.system)) == HeldProgram(path=tool)
    assert find_program(tool, machine.lookup()) == HeldProgram(path=tool)


def test_the_first_program_on_path_decides_and_says_where_it_lies(machine: Machine) -> None:
    planted = machine.program(machine.venv / "tool")
    held = machine.program(machine.system / "tool")
    lookup = machine.lookup(machine.venv, machine.system)
    found = find_program("tool", lookup)
    assert isinstance(found, UnheldProgram)
    assert found.path == planted
    assert found.reason == f"{planted} lies in {machine.project}, where agents may write"
    assert find_own_program("tool", lookup) == HeldProgram(path=held)


@pytest.mark.parametrize("entry", ["", ".", ".venv/bin", "../project/.venv/bin"])
def test_empty_and_relative_entries_of_path_are_folders_of_the_project(
    machine: Machine, entry: str
) -> None:
    machine.program(machine.venv / "tool")
    machine.program(machine.project / "tool")
    found = find_program("tool", machine.lookup(entry, machine.system))
    assert isinstance(found, UnheldProgram)
    assert "where agents may write" in found.reason


def test_a_missing_program_says_so(machine: Machine) -> None:
    found = find_program("tool", machine.lookup(machine.system))
    assert isinstance(found, UnheldProgram)
    assert found.path == ""
    assert "there is no program 'tool'" in found.reason


def test_links_are_followed_in_both_directions(machine: Machine) -> None:
    inside = machine.program(machine.venv / "tool")
    outside = machine.program(machine.system / "real")
    (machine.system / "leads-in").symlink_to(inside)
    (machine.project / "leads-out").symlink_to(outside)
    (machine.system / "again").symlink_to("leads-in")
    folder = machine.system / "folder"
    folder.symlink_to(machine.venv)
    for path in (
        machine.system / "leads-in", machine.system / "again", machine.project / "leads-out",
        folder / "tool",
    ):  # fmt: skip
        assert isinstance(find_program(str(path), machine.lookup()), UnheldProgram), path
    (machine.system / "fine").symlink_to("real")
    assert isinstance(find_program(str(machine.system / "fine"), machine.lookup()), HeldProgram)


def test_a_path_that_passes_through_the_project_is_not_held(machine: Machine) -> None:
    machine.program(machine.system / "tool")
    (machine.project / "sub").mkdir()
    way = f"{machine.project}/sub/../../system/tool"
    found = find_program(way, machine.lookup())
    assert isinstance(found, UnheldProgram)
    assert "on the way" in found.reason


def test_the_interpreter_of_a_script_is_held_too(machine: Machine) -> None:
    python = machine.program(machine.system / "python3")
    env = machine.program(machine.system / "env")
    script = machine.program(machine.system / "script", f"#!{env} python3\n")
    found = find_program(script, machine.lookup(machine.system))
    assert found == HeldProgram(path=script, interpreters=(env, python))
    machine.program(machine.venv / "python3")
    planted = find_program(script, machine.lookup(machine.venv, machine.system))
    assert isinstance(planted, UnheldProgram)
    assert "is run by python3" in planted.reason
    direct = machine.program(machine.system / "direct", f"#!{machine.venv}/python3\n")
    assert isinstance(find_program(direct, machine.lookup(machine.system)), UnheldProgram)


def test_scripts_that_name_each_other_end(machine: Machine) -> None:
    script = machine.system / "loop"
    machine.program(script, f"#!{script}\n")
    assert isinstance(find_program(str(script), machine.lookup()), UnheldProgram)


def test_a_protected_folder_of_the_project_is_held(machine: Machine) -> None:
    tool = machine.program(machine.project / ".swarm/tool")
    assert find_program(tool, machine.lookup()) == HeldProgram(path=tool)
    other = machine.program(machine.project / ".SWARM/tool")
    assert isinstance(find_program(other, machine.lookup()), UnheldProgram)


def test_an_environment_that_loads_modules_of_the_project_is_not_held(machine: Machine) -> None:
    venv = machine.system / "venv"
    tool = machine.program(venv / "bin/tool")
    site = venv / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    assert isinstance(find_program(tool, machine.lookup()), HeldProgram)
    (site / "project.pth").write_text(f"{machine.project}\n")
    found = find_program(tool, machine.lookup())
    assert isinstance(found, UnheldProgram)
    assert "loads modules from" in found.reason
    (site / "project.pth").unlink()
    (site / "__editable___x_finder.py").write_text(f"MAPPING = {{'x': '{machine.project}/x'}}\n")
    assert isinstance(find_program(tool, machine.lookup()), UnheldProgram)


@pytest.mark.parametrize("policy", [ReadOnly(), DangerFullAccess()])
def test_where_agents_write_nothing_or_everything_no_program_is_told_apart(
    machine: Machine, policy: ReadOnly | DangerFullAccess
) -> None:
    tool = machine.program(machine.venv / "tool")
    places = find_writable_places(policy, str(machine.project))
    assert isinstance(find_program(tool, Lookup("", "/", places)), HeldProgram)


def test_granted_folders_and_copies_count_and_what_a_run_closes_does_not(
    machine: Machine,
) -> None:
    tool = machine.program(machine.system / "tool")
    granted = find_writable_places(ReadOnly(), "/", extra=(str(machine.system),))
    assert why_unheld(tool, granted)
    closed = find_writable_places(ReadOnly(), "/", extra=(str(machine.system),), shut=(tool,))
    assert not why_unheld(tool, closed)


def test_the_environment_of_a_held_program_leads_to_no_folder_of_the_project(
    machine: Machine,
) -> None:
    lookup = machine.lookup()
    held = held_environment(
        {
            "PATH": f"{machine.venv}:.::/usr/bin",
            "LD_LIBRARY_PATH": f"{machine.project}/lib",
            "PYTHONPATH": f"/opt/lib:{machine.project}",
            "LD_PRELOAD": f"{machine.project}/x.so",
            "NODE_OPTIONS": "--require=./x.js",
            "JAVA_TOOL_OPTIONS": "-Xmx1g",
            "HOME": "/home/u",
            "NAME": str(machine.project),
        },
        lookup,
    )
    assert held == {
        "PATH": "/usr/bin",
        "PYTHONPATH": "/opt/lib",
        "JAVA_TOOL_OPTIONS": "-Xmx1g",
        "HOME": "/home/u",
        "NAME": str(machine.project),
    }


def test_packages_below_a_home_that_agents_may_write_are_not_loaded(machine: Machine) -> None:
    held = held_environment({"HOME": str(machine.project)}, machine.lookup())
    assert held["PYTHONNOUSERSITE"] == "1"
    assert held["PATH"] == "/usr/local/bin:/usr/bin:/bin"


def test_an_invalid_name_finds_nothing(machine: Machine) -> None:
    for name in ("", "a\0b", "x" * 5000):
        found = find_program(name, machine.lookup(machine.system))
        assert isinstance(found, UnheldProgram)
        assert not found.path


SETS_A_TITLE = """
from pathlib import Path
from swarm.mailbox.base.held_programs import Lookup, WritablePlaces, held_process_environment
from setproctitle import setproctitle
with held_process_environment(Lookup("", "/", WritablePlaces(everywhere=True))):
    setproctitle("swarm: gateway")
print(Path("/proc/self/cmdline").read_text().partition(chr(0))[0].strip())
"""


def test_a_process_whose_variables_are_held_can_still_be_titled():
    said = subprocess.run(
        [sys.executable, "-P", "-c", SETS_A_TITLE],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "swarm: gateway\n"
