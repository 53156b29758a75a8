"""What `swarm run` imports before it forks: nothing that only some runs, or later moments, need."""

import subprocess
import sys

LATE = {
    "asyncio",
    "h11",
    "httpx",
    "httpcore",
    "jsonschema",
    "rich",
    "sqlite3",
    "starlark",
    "tree_sitter",
    "zmq",
}


def test_a_run_imports_little_before_its_processes_are_forked() -> None:
    module = "swarm.supervisor.clients.cli.commands.run_command"
    program = f"import sys; import {module}; print(*sorted(sys.modules))"
    argv = [sys.executable, "-P", "-c", program]
    loaded = set(subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split())
    assert loaded & LATE == set()
    ours = {name for name in loaded if name.startswith("swarm.")}
    assert not {
        name for name in ours if name.startswith(("swarm.worker", "swarm.supervisor.parts.gua"))
    }
    assert "swarm.supervisor.run" not in ours
