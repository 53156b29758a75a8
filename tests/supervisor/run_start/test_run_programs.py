"""MCP servers with rights of their own are held at the start of a run, or are told of."""

from pathlib import Path

import msgspec

from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.values.limits import DangerFullAccess
from swarm.supervisor.request.run_request import McpSettings, RunRequest
from swarm.supervisor.run_start.run_programs import HeldRun, hold_programs


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def request_of(tmp_path: Path, *servers: McpServer, **more: object) -> RunRequest:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    path = f"{project}/.venv/bin:{tmp_path}/bin:/usr/bin:/bin"
    return RunRequest(
        cwd=str(project), environment={"PATH": path, "HOME": str(tmp_path)},
        mcp=McpSettings(servers=servers), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def held_run(request: RunRequest) -> HeldRun:
    return hold_programs(request, Path(request.cwd).parent / "state/mcp-programs")


def server(command: str, *args: str, network: bool = True) -> McpServer:
    return McpServer(name="s", command=command, args=args, network=network, source="c.toml, line 1")


def test_a_bare_name_becomes_the_held_file_that_it_means_at_the_start(tmp_path: Path) -> None:
    path = program(tmp_path / "bin/own")
    held = held_run(request_of(tmp_path, server("own")))
    assert [one.command for one in held.request.mcp.servers] == [path]
    assert (held.protected, held.warnings) == ((), ())


def test_a_script_of_the_project_is_closed_to_its_agents_and_said(tmp_path: Path) -> None:
    script = program(tmp_path / "project/tools/server.sh")
    held = held_run(request_of(tmp_path, server("./tools/server.sh")))
    assert held.protected == (script,)
    assert not held.places.root_of(script)
    assert held.places.root_of(f"{tmp_path}/project/other")
    assert f"no command of this run may change {script}: MCP server `s`" in held.warnings[0]


def test_a_script_of_the_project_that_is_not_what_ran_before_has_no_rights(tmp_path: Path) -> None:
    """A run that knows nothing of the server may have written it."""
    script = program(tmp_path / "project/tools/server.sh")
    table = server("./tools/server.sh")
    held = held_run(request_of(tmp_path, table))
    assert [one.closed for one in held.request.mcp.servers] == [(script,)]
    Path(script).write_text("#!/bin/sh\ncurl evil\n")
    held = held_run(request_of(tmp_path, table))
    assert (held.request.mcp.servers, held.protected) == ((table,), ())
    (warning,) = held.warnings
    assert "MCP server `s` (c.toml, line 1) runs without network, credentials" in warning
    assert f"(changed: {script})" in warning
    assert "`swarm mcp trust s`" in warning


def test_what_cannot_be_closed_keeps_its_table_and_is_told_of(tmp_path: Path) -> None:
    program(tmp_path / "bin/make")
    held = held_run(request_of(tmp_path, server("make", "serve")))
    assert held.request.mcp.servers == (server("make", "serve"),)
    assert held.protected == ()
    (warning,) = held.warnings
    assert "MCP server `s` (c.toml, line 1) runs without network, credentials" in warning
    assert "name another folder as `cwd`" in warning


def test_a_server_without_rights_is_left_as_it_is(tmp_path: Path) -> None:
    planted = program(tmp_path / "project/.venv/bin/own")
    assert planted
    held = held_run(request_of(tmp_path, server("own", network=False)))
    assert held.request.mcp.servers == (server("own", network=False),)
    assert (held.protected, held.warnings) == ((), ())


def test_without_a_sandbox_nothing_is_held_and_nothing_said_of_single_servers(
    tmp_path: Path,
) -> None:
    program(tmp_path / "bin/make")
    held = held_run(request_of(tmp_path, server("make"), sandbox=DangerFullAccess()))
    assert (held.protected, held.warnings) == ((), ())


def test_a_module_folder_of_the_project_is_said_once(tmp_path: Path) -> None:
    request = request_of(tmp_path)
    environment = {**request.environment, "PYTHONPATH": f"{request.cwd}/src:/opt/x"}
    held = held_run(RunRequest(cwd=request.cwd, environment=environment))
    assert len(held.warnings) == 1
    assert f"PYTHONPATH names {request.cwd}/src, where agents write" in held.warnings[0]


def test_no_login_shell_is_asked_whose_start_up_files_agents_write(tmp_path: Path) -> None:
    """Dotfiles in the project, a home folder that is the project, a shell of the project."""
    request = request_of(tmp_path)
    project = Path(request.cwd)
    held = held_run(request)
    assert (held.request.shell_snapshot, held.warnings) == (True, ())
    (tmp_path / ".zshrc").symlink_to(project / "zshrc")
    for environment in (
        {"HOME": str(tmp_path)},
        {"HOME": str(project)},
        {"HOME": "/nowhere", "ZDOTDIR": f"{project}/zsh"},
        {"HOME": "/nowhere", "SHELL": program(project / "bash")},
    ):
        held = held_run(RunRequest(cwd=str(project), environment=environment))
        assert not held.request.shell_snapshot
        assert "no login shell is asked for its variables" in held.warnings[0]


def test_a_server_on_other_machines_is_told_of_and_nothing_is_closed_for_it(tmp_path: Path) -> None:
    program(tmp_path / "project/tools/server.sh")
    there = msgspec.structs.replace(server("./tools/server.sh"), on_node=True)
    held = held_run(request_of(tmp_path, there))
    assert (held.request.mcp.servers, held.protected) == ((there,), ())
    assert "runs without network, credentials" in held.warnings[0]
