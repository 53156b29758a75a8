"""A server in a folder's `.mcp.json`."""

import json

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.clients.cli.base.mcp_json_file import add_to_mcp_json


def test_a_server_is_added_beside_those_of_others_and_replaced(tmp_path):
    path = tmp_path / ".mcp.json"
    path.write_text('{"mcpServers": {"old": {"command": "a"}}, "more": 1}')
    add_to_mcp_json(tmp_path, "docs", {"command": "docs", "args": ["-r"], "env": {"A": "b"}})
    add_to_mcp_json(tmp_path, "docs", {"command": "docs"})
    assert json.loads(path.read_text()) == {
        "mcpServers": {"old": {"command": "a"}, "docs": {"command": "docs"}},
        "more": 1,
    }


def test_a_token_is_named_and_never_written(tmp_path):
    table = {
        "url": "https://e.org/mcp",
        "bearer_token_env_var": "TOKEN",
        "http_headers": {"X": "y"},
    }
    path = add_to_mcp_json(tmp_path, "api", table)
    assert json.loads(path.read_text())["mcpServers"]["api"] == {
        "type": "http",
        "url": "https://e.org/mcp",
        "headers": {"X": "y", "Authorization": "Bearer ${TOKEN}"},
    }


@pytest.mark.parametrize("text", ["", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}'])
def test_a_file_of_another_form_stays_as_it_is(tmp_path, text):
    path = tmp_path / ".mcp.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"\.mcp\.json"):
        add_to_mcp_json(tmp_path, "docs", {"command": "docs"})
    assert path.read_text() == text


def test_a_link_of_the_project_is_not_written_through(tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    (tmp_path / ".mcp.json").symlink_to(other)
    with pytest.raises(UsageError, match="is a link"):
        add_to_mcp_json(tmp_path, "docs", {"command": "docs"})
    assert other.read_text() == "{}"


def test_what_the_file_cannot_hold_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no place for network"):
        add_to_mcp_json(tmp_path, "docs", {"command": "docs", "network": True})
    assert not (tmp_path / ".mcp.json").exists()
