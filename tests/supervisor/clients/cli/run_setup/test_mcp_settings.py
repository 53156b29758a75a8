"""The servers of a run: which are used, and what is said of them."""

import tomllib

from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.merge import Layer
from swarm.roles.config.layers.requirements import Requirements
from swarm.roles.rights.role import Role
from swarm.supervisor.clients.cli.run_setup.mcp_settings import build_mcp


def built(text):
    layer = Layer(name="user", source="/c/config.toml", values=tomllib.loads(text), text=text)
    loaded = load_config([layer], strict=True)
    warnings = []
    prepared = build_mcp(
        loaded.config, loaded.layers, Role(name=""), chosen=(), environment={},
        required=Requirements(), warnings=warnings,
    )  # fmt: skip
    return prepared.settings.servers, warnings


def test_a_server_outside_of_the_sandbox_is_named_and_one_inside_is_not():
    servers, warnings = built(
        "[mcp_servers.in]\ncommand = 'a'\n[mcp_servers.out]\ncommand = 'b'\nsandbox = 'none'\n"
    )
    assert [one.sandboxed for one in servers] == [True, False]
    (told,) = warnings
    assert "/c/config.toml, line 3, mcp_servers.out: this MCP server runs outside" in told


def test_a_server_may_ask_a_model_only_if_its_table_says_so():
    servers, _ = built(
        "[mcp_servers.a]\ncommand = 'a'\n[mcp_servers.b]\ncommand = 'b'\nsampling = 'prompt'\n"
    )
    assert [one.sampling for one in servers] == ["off", "prompt"]
