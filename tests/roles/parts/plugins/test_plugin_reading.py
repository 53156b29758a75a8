"""What an installed plugin brings, and what of its hooks is shown and held."""

import json

from swarm.roles.parts.plugins.files.plugin_id import PluginId
from swarm.roles.parts.plugins.plugin_reading import PluginPlace, read_parts
from swarm.supervisor.clients.cli.run_setup.plugin_summary import describe_plugin


def read(folder):
    plugin_id = PluginId(plugin="demo", marketplace="team")
    return read_parts(PluginPlace(plugin_id=plugin_id, root=folder, data=folder), digest="d")


def test_a_hooks_arguments_are_shown_and_its_script_is_held(tmp_path):
    (tmp_path / "run.py").write_text("pass")
    hook = {"type": "command", "command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/run.py", "x"]}
    group = {"hooks": {"Stop": [{"hooks": [hook]}]}}
    (tmp_path / ".claude-plugin").mkdir()
    (tmp_path / ".claude-plugin" / "plugin.json").write_text(json.dumps({"hooks": group}))
    parts = read(tmp_path)
    assert [script.path for script in parts.hooks[0].scripts] == [str(tmp_path / "run.py")]
    assert "runs: python3 $PLUGIN_ROOT/run.py x" in "\n".join(describe_plugin(parts))


def test_a_faulty_part_is_left_out_by_name_and_the_others_count(tmp_path):
    out = {"command": "x", "cwd": "../.."}
    servers = {"good": {"command": "x"}, "bad": {"command": 7}, "out": out}
    (tmp_path / ".mcp.json").write_text(json.dumps(servers))
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "hooks.json").write_text("{")
    parts = read(tmp_path)
    assert list(parts.servers) == ["good"]
    assert parts.hooks == ()
    said = "\n".join(parts.warnings)
    assert ".mcp.json: mcpServers.bad: command: " in said
    assert "mcpServers.out.cwd" in said
    assert "hooks/hooks.json, line 1" in said


def test_a_plugins_server_stays_in_the_sandbox_whatever_it_says(tmp_path):
    server = {"command": "x", "sandbox": "none", "network": True, "writable_roots": ["/"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"docs": server}}))
    table = read(tmp_path).servers["docs"]
    assert table.get("sandbox", "read-only") == "read-only"
    assert not table.get("network")
    assert table["writable_roots"] == [str(tmp_path)]
