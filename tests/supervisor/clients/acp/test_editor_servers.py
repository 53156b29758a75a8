"""Servers of an editor become tables that a configuration may have."""

import json
from pathlib import Path

from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

from swarm.roles.config.mcp_table import SERVER_NAME, read_mcp_json
from swarm.supervisor.clients.acp.editor_servers import encode_servers, server_options


def stdio(name: str) -> McpServerStdio:
    return McpServerStdio(name=name, command="/bin/x", args=["a"], env=[])


def test_values_are_literal_and_headers_kept():
    header = HttpHeader(name="X-Team", value="${HOME}")
    server = HttpMcpServer(type="http", name="api", url="https://h/", headers=[header])
    variable = EnvVariable(name="A", value="${B}")
    own = McpServerStdio(name="own", command="run", args=[], env=[variable])
    assert read_mcp_json(encode_servers([server, own]), "-") == {
        "api": {
            "url": "https://h/",
            "http_headers": {"X-Team": "${HOME}"},
            "expand_variables": False,
        },
        "own": {"command": "run", "env": {"A": "${B}"}, "expand_variables": False},
    }


def test_every_name_becomes_one_that_a_configuration_may_have_and_no_two_are_equal():
    names = ["My Server", "My_Server", "ä/../x", "", "x" * 500, "-"]
    tables = json.loads(encode_servers([stdio(name) for name in names]))["mcpServers"]
    assert len(tables) == len(names)
    assert all(SERVER_NAME.match(name) for name in tables)


def test_the_file_is_private_and_gone_afterwards():
    with server_options(b"") as options:
        assert options == ()
    with server_options(b"{}") as options:
        (option,) = options
        path = Path(option.removeprefix("--mcp-config="))
        assert path.read_bytes() == b"{}"
        assert path.parent.stat().st_mode & 0o077 == 0
    assert not path.exists()
