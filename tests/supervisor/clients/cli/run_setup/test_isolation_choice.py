"""Which agents of a run work in copies: flag, task and configuration add up; the most counts."""

import pytest

from swarm.mailbox.protocol.mcp import McpServer
from swarm.supervisor.clients.cli.run_setup.isolation_choice import most_isolated, servers_beside


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ((None, None, "shared"), "shared"),
        ((None, "auto", "shared"), "auto"),
        ((None, "copy", "auto"), "copy"),
        (("children", None, "shared"), "copy"),
        ((None, "children", "shared"), "copy"),
        (("children", None, "run"), "run"),
        (("run", "copy", "auto"), "run"),
        ((None, "run", "shared"), "run"),
    ],
)
def test_the_most_that_is_said_counts_and_old_values_mean_what_they_meant(said, counts):
    assert most_isolated(*said) == counts


@pytest.mark.parametrize(
    ("server", "warned"),
    [
        (McpServer(name="s", command="x"), 0),
        (McpServer(name="s", command="x", sandboxed=False), 1),
        (McpServer(name="s", command="x", writable_roots=("/p/below",)), 1),
        (McpServer(name="s", command="x", writable_roots=("/",)), 1),
        (McpServer(name="s", command="x", writable_roots=("/elsewhere",)), 0),
        (McpServer(name="s", url="https://s.example", sandboxed=False), 0),
    ],
)
def test_a_server_that_may_write_beside_the_copy_is_named(server, warned):
    found = [*servers_beside([server], "/p")]
    assert len(found) == warned
    assert all("server s sees the project itself" in one for one in found)
