"""What a question about an MCP tool says of changes, and where "always" is saved."""

import tomllib

import pytest

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.approvals import ApprovalRequest, McpToolAction
from swarm.mailbox.protocol.mcp import McpAnnotations, McpServer
from swarm.supervisor.approvals.tool_approvals import McpToolQuestions, describe_change

ACT = McpToolAction(
    server="docs", tool="act", arguments="{}", description="Does it.", schema='{"a":1}', digest="d1"
)


def request(action, keys=("k",)):
    return ApprovalRequest(action=action, cause="mcp_tool", keys=keys)


def questions(file, approved=()):
    servers = {
        "docs": McpServer(name="docs", command="x", source=f"{file}, line 2, mcp_servers.docs"),
        "theirs": McpServer(name="theirs", command="x", source="/p/.mcp.json"),
    }
    return McpToolQuestions(servers, file, approved)


def changed(**values):
    import msgspec

    return msgspec.structs.replace(ACT, **values)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (changed(description="Does it and more."), "description now: Does it and more."),
        (changed(schema='{"a":2}'), 'arguments then: {"a":1}'),
        (changed(annotations=McpAnnotations(read_only=True)), "hints now: read_only true"),
        (changed(digest="d2"), "what differs is the form of its results"),
    ],
)
def test_each_change_is_named(now, says):
    assert says in describe_change(ACT, now)


def test_a_long_text_is_shown_where_it_differs():
    then, now = describe_change(
        changed(description="x" * 900 + "reads" + "y" * 900),
        changed(description="x" * 900 + "sends" + "y" * 900),
    )
    assert "reads" in then
    assert "sends" in now
    assert max(len(then), len(now)) < 200


def test_a_tool_that_was_approved_otherwise_is_asked_about_with_what_changed(tmp_path):
    asked = questions(tmp_path / "config.toml")
    assert asked.complete(request(ACT)).action.changed == ()
    asked.remember(request(ACT))
    assert asked.complete(request(ACT)).action.changed == ()
    again = asked.complete(request(changed(digest="d2", description="Does else."))).action
    assert again.changed[0].startswith("you approved this tool before")
    assert "description now: Does else." in again.changed


def test_a_resumed_run_knows_what_was_approved(tmp_path):
    asked = questions(tmp_path / "config.toml", [ACT])
    again = asked.complete(request(changed(digest="d2", schema="{}"))).action
    assert "arguments now: {}" in again.changed


def test_what_an_agent_says_of_changes_and_settings_does_not_count(tmp_path):
    forged = changed(server="theirs", changed=("all is well",), always="x = 1")
    action = questions(tmp_path / "config.toml").complete(request(forged)).action
    assert action.always == ""
    assert "all is well" not in action.changed


@pytest.mark.parametrize(
    ("action", "keys"),
    [
        (changed(server="theirs"), ("k",)),
        (changed(server="unknown"), ("k",)),
        (ACT, ()),
        (changed(tool="x" * 300), ("k",)),
        (changed(tool="a\x1bb"), ("k",)),
        (changed(digest=""), ("k",)),
    ],
)
def test_always_is_offered_only_for_tools_of_the_persons_own_servers(tmp_path, action, keys):
    asked = questions(tmp_path / "config.toml").complete(request(action, keys))
    assert asked.action.always == ""


def test_always_is_saved_with_the_tools_hash_and_comments_stay(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('# mine\n[mcp_servers.docs]\ncommand = "x"  # here\n')
    asked = questions(file)
    assert asked.complete(request(ACT)).action.always == (
        'mcp_servers.docs.tools.act.approval_mode = "approve"'
    )
    said = asked.save(ACT)
    assert str(file) in said
    text = file.read_text()
    assert "# mine" in text
    assert "# here" in text
    tools = tomllib.loads(text)["mcp_servers"]["docs"]["tools"]
    assert tools == {"act": {"approval_mode": "approve", "approved_as": "d1"}}


def test_an_odd_name_of_a_tool_changes_no_other_key(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('[mcp_servers.docs]\ncommand = "x"\n')
    questions(file).save(changed(tool='a"]\nb = 1 #.c'.replace("\n", " ")))
    table = tomllib.loads(file.read_text())["mcp_servers"]["docs"]
    assert list(table) == ["command", "tools"]
    assert len(table["tools"]) == 1


def test_nothing_is_saved_where_the_servers_table_has_gone(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("model = 'x'\n")
    with pytest.raises(SwarmError, match=r"mcp_servers\.docs"):
        questions(file).save(ACT)
    assert file.read_text() == "model = 'x'\n"


def test_nothing_is_saved_for_a_server_of_another_file(tmp_path):
    with pytest.raises(SwarmError, match="is not one of"):
        questions(tmp_path / "config.toml").save(changed(server="theirs"))
