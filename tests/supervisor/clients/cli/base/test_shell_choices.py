"""What a shell completes: runs, agents, roles and profiles, as they are here."""

import os
import subprocess
import sys

import pytest


def complete(line, tmp_path):
    program = "import sys; sys.argv[0] = 'swarm'; "
    program += "from swarm.supervisor.clients.cli.entry import main; main()"
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL, cwd=tmp_path, check=False,
        env={
            **os.environ, "SWARM_HOME": str(tmp_path), "_SWARM_COMPLETE": "bash_complete",
            "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
        },
    )  # fmt: skip
    assert done.stderr == ""
    return [one.removeprefix("plain,") for one in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("swarm run --role exp", ["explorer"]),
        ("swarm run --profile fa", ["fast"]),
        ("swarm show no-such", []),
        ("swarm features enable multi_a", ["multi_agent"]),
        ("swarm run --enable multi_a", ["multi_agent"]),
        ("swarm mcp get do", ["docs"]),
        ("swarm roles explain exp", ["explorer"]),
        ("swarm show no-such /ro", []),
    ],
)
def test_known_words_are_completed(line, found, tmp_path):
    (tmp_path / "fast.config.toml").write_text("")
    (tmp_path / "config.toml").write_text('[mcp_servers.docs]\ncommand = "docs-server"\n')
    assert complete(line, tmp_path) == found
