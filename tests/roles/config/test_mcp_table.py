"""`[mcp_servers.NAME]` and `.mcp.json`: what is accepted, what is refused, and where."""

import json

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.merge import Layer
from swarm.roles.config.layers.project_config import project_layers
from swarm.roles.config.mcp_table import (
    McpServerTable,
    UnsetVariable,
    expand,
    read_mcp_file,
    read_mcp_json,
    transport_problem,
)


def load(text):
    import tomllib

    layer = Layer(name="user", source="/c/config.toml", values=tomllib.loads(text), text=text)
    return load_config([layer], strict=True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[mcp_servers.a]\ncommand = 1", "line 2, mcp_servers.a.command"),
        ("[mcp_servers.a]\nurl = 'x'\nbearer_token = 't'", "line 3, mcp_servers.a.bearer_token"),
        ("[mcp_servers.a]\ncommnd = 'x'", "did you mean `command`?"),
        ("[mcp_servers.'a b']\ncommand = 'x'", "invalid server name 'a b'"),
        ("[mcp_servers.a]\nstartup_timeout_sec = 0", "must be greater than zero"),
        ("[mcp_servers.a]\nexperimental_environment = 'remote'", "only `local`"),
        ("[mcp_servers.a]\nurl = 'https://a'\nwhere = 'node'", "started by a `command`"),
        ("[mcp_servers.a.tools.t]\napproval_mode = 'maybe'", "approval_mode"),
        ("[mcp_servers.a.tools.t]\nmode = 'auto'", "unknown key"),
        ("[mcp_servers.a]\nenv = { 'A=B' = 'x' }", "not a variable's name"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(text, told):
    with pytest.raises(UsageError) as refused:
        load(text)
    assert "/c/config.toml" in str(refused.value)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (McpServerTable(), "invalid transport"),
        (McpServerTable(command="a", url="http://b"), "url is not supported for stdio"),
        (McpServerTable(command="a", http_headers={"a": "b"}), "http_headers is not supported for"),
        (McpServerTable(url="http://b", args=("a",)), "args is not supported for streamable_http"),
        (McpServerTable(url="file:///b"), "is not an http address"),
        (McpServerTable(command="a", oauth_grant="client_credentials"), "is not supported for"),
        (McpServerTable(url="http://b", oauth_issuer="https://c"), "has a key and an issuer"),
        (
            McpServerTable(url="http://b", oauth_grant="client_credentials"),
            "needs an oauth_client_id",
        ),
        (
            McpServerTable(
                url="http://b",
                oauth_grant="client_credentials",
                oauth_client_id="c",
                oauth_client_secret_env_var="S",
                oauth_client_key_env_var="K",
            ),
            "needs either",
        ),
        (
            McpServerTable(
                url="http://b",
                oauth_grant="client_credentials",
                oauth_client_id="c",
                oauth_client_key_env_var="K",
            ),
            None,
        ),
        (McpServerTable(command="a", network=True), None),
        (McpServerTable(url="https://b", http_headers={"a": "b"}), None),
    ],
)
def test_a_server_has_one_transport_and_only_its_keys(table, problem):
    found = transport_problem(table)
    assert found == problem or (problem is not None and problem in str(found))


def test_variables_are_replaced_or_have_a_default_or_are_an_error():
    assert expand("${A}-${B:-c}-$A", {"A": "a"}) == "a-c-$A"
    with pytest.raises(UnsetVariable, match="B is not set"):
        expand("${B}", {"A": "a"})


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"mcpServers": {"a": {"type": "sse", "url": "x"}}}', '{"mcpServers": 1}']
)
def test_a_wrong_mcp_json_is_refused_by_name(text):
    with pytest.raises(UsageError, match=r"/p/\.mcp\.json"):
        read_mcp_json(text.encode(), "/p/.mcp.json")


def test_a_mcp_json_with_a_byte_order_mark_is_read():
    text = '\ufeff{"mcpServers": {"a": {"command": "run"}}}'
    assert read_mcp_json(text.encode(), "/p/.mcp.json")["a"]["command"] == "run"


ODD = {
    "sse": {"type": "sse", "url": "http://a"},
    "of-another-kind": {"type": "ws", "url": "ws://a"},
    "a number": {"command": "x"},
    "list": ["x"],
    "args": {"command": "x", "args": "-v"},
    "env": {"command": "x", "env": {"PORT": 8080}},
    "variable": {"command": "x", "env": {"A=B": "c"}},
    "blank": {"command": " "},
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_server_of_a_mcp_json_costs_itself_and_is_named(name):
    text = json.dumps({"mcpServers": {name: ODD[name], "good": {"command": "x", "args": None}}})
    file = read_mcp_file(text.encode(), ".mcp.json")
    assert list(file.servers) == ["good"]
    (problem,) = file.problems
    assert problem.startswith(f".mcp.json: mcpServers.{name}")
    with pytest.raises(UsageError, match=r"\.mcp\.json: mcpServers"):
        read_mcp_json(text.encode(), ".mcp.json")


@pytest.fixture
def project(tmp_path):
    (tmp_path / ".git").mkdir()
    servers = {"own": {"command": "run"}, "mine": {"command": "evil"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (tmp_path / ".swarm").mkdir()
    (tmp_path / ".swarm" / "config.toml").write_text(
        "[mcp_servers.own]\nsandbox = 'none'\nnetwork = true\n"
    )
    return tmp_path


def layers_of(project, below, reason=""):
    def decide(folders):
        return [reason for _ in folders]

    return project_layers(project, below, config_folder=project / "none", decide=decide)


def test_a_project_cannot_change_a_persons_server_nor_let_its_own_out_of_the_sandbox(project):
    below = {"mcp_servers": {"mine": {"command": "good", "sandbox": "none"}}}
    (layer,) = layers_of(project, below)
    assert layer.values["mcp_servers"] == {
        "own": {"command": "run", "expand_variables": True, "network": True}
    }
    told = "\n".join(layer.warnings)
    assert "mcp_servers.mine: ignored" in told
    assert "mcp_servers.own.sandbox: ignored" in told


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"mcpServers": {}, // none\n}',
            "line 1, column 20: not valid JSON: JSON has no",
        ),
        (
            '{"mcpServers": {"a": {"command": "x"}}',
            "line 1, column 39: not valid JSON: it ends",
        ),
        ('{"mcpServers": []}', "`mcpServers` must be an object of servers"),
        ('["mcpServers"]', "must be a JSON object"),
        ("", "not valid JSON: it is empty"),
        ("\0", "it is not text"),
    ],
)
def test_a_trusted_mcp_json_that_cannot_be_read_costs_its_own_servers_alone(project, text, problem):
    (project / ".mcp.json").write_text(text)
    (layer,) = layers_of(project, {})
    assert not layer.broken
    assert list(layer.values["mcp_servers"]) == ["own"]
    (told,) = [line for line in layer.warnings if ".mcp.json" in line]
    assert problem in told
    assert told.endswith("its servers are left out")


def test_a_server_that_a_mcp_json_switches_off_stays_off():
    for text, is_off in (
        ('"disabled": true', True),
        ('"enabled": false', True),
        ('"disabled": false', False),
        ('"disabled": null', False),
    ):
        read = read_mcp_json(b'{"mcpServers": {"a": {"command": "x", %s}}}' % text.encode(), "f")
        assert (read["a"].get("enabled") is False) == is_off


def test_a_server_of_a_mcp_json_without_a_program_and_an_address_costs_itself(project):
    servers = {"empty": {}, "noted": {"args": ["x"]}, "whole": {"command": "x"}}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (layer,) = layers_of(project, {})
    assert "whole" in layer.values["mcp_servers"]
    assert not {"empty", "noted"} & layer.values["mcp_servers"].keys()
    told = [line for line in layer.warnings if "neither `command`" in line]
    assert len(told) == 2


def test_a_trusted_mcp_json_of_any_marked_encoding_is_read(project):
    servers = json.dumps({"mcpServers": {"ünï": {"command": "x"}, "named": {"command": "grüße"}}})
    (project / ".mcp.json").write_bytes(servers.encode("utf-16"))
    (layer,) = layers_of(project, {})
    assert layer.values["mcp_servers"]["named"]["command"] == "grüße"
    assert any("mcpServers.ünï: invalid server name" in line for line in layer.warnings)


def test_the_persons_own_words_about_a_projects_server_leave_it_there(project):
    (layer,) = layers_of(project, {"mcp_servers": {"own": {"enabled": False}}})
    assert set(layer.values["mcp_servers"]) == {"own", "mine"}


def test_an_untrusted_project_has_no_servers_and_a_change_of_its_file_is_a_new_content(project):
    digests = []

    def decide(folders):
        digests.append(folders[0].digest)
        return ["not trusted" for _ in folders]

    def read():
        return project_layers(project, {}, config_folder=project / "none", decide=decide)

    assert read()[0].values == {}
    (project / ".mcp.json").write_text('{"mcpServers": {}}')
    read()
    assert digests[0] != digests[1]
