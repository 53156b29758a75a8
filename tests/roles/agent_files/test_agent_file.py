"""An agent file becomes a role that only takes rights away."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, McpAccess
from swarm.roles.agent_files.agent_file import read_agent_file
from swarm.roles.config.layers.merge import Layer
from swarm.roles.markdown.markdown_discovery import FoundMarkdown
from swarm.roles.parts.plugins.files.plugin_manifest import PluginManifest
from swarm.roles.parts.plugins.files.plugin_parts import PluginParts
from swarm.roles.rights.narrow import narrow_limits
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import load_roles

READ = ("exec_command", "write_stdin", "list_dir", "view_image")


def role(front: str, **aliases: str) -> Role:
    text = f"---\nname: finder\ndescription: Finds.\n{front}\n---\nFind it.\n"
    found = FoundMarkdown(path="/a/finder.md", root="/a", scope="project", data=text.encode())
    return read_agent_file(found, aliases)


@pytest.mark.parametrize(
    ("front", "only", "sandbox", "approval"),
    [
        ("", None, None, None),
        ("tools: Read, Grep, Glob", READ, "read-only", None),
        ("tools: [Read, Bash]", READ, None, None),
        ("tools: Bash, Edit, Write", ("exec_command", "write_stdin", "apply_patch", "edit_file"),
         None, None),
        ("tools: Read, Edit", (*READ, "apply_patch", "edit_file"), None, "untrusted"),
        ("tools: Bash(git diff:*), Read", ("exec_command", "write_stdin", "list_dir", "view_image"),
         None, "untrusted"),
        ("tools: TodoWrite", ("update_plan",), "read-only", None),
        ("tools: Read\npermissionMode: dontAsk", READ, "read-only", "never"),
        ("permissionMode: plan", None, "read-only", None),
        ("tools: Read, Write\ndisallowedTools: Write", READ, "read-only", None),
        ("tools:", None, None, None),
    ],
)  # fmt: skip
def test_tools_are_mapped_and_what_they_do_not_name_is_held_back(front, only, sandbox, approval):
    made = role(front)
    assert (made.tools.only, made.sandbox_mode, made.approval) == (only, sandbox, approval)


def test_what_is_taken_away_is_taken_from_what_the_parent_has():
    made = role("disallowedTools: Write, Edit, Task")
    assert not made.tools.allows("apply_patch")
    assert not made.tools.allows("spawn_agent")
    assert made.tools.allows("exec_command")


def test_servers_tools_and_skills_are_chosen():
    made = role("tools: Read, mcp__git__log, mcp__git__diff, mcp__docs\nskills: [notes]")
    assert made.mcp_servers == ("docs", "git")
    assert made.mcp_tools == (McpAccess(server="git", tools=("diff", "log")),)
    assert made.skills.only == ("notes",)
    assert role("mcpServers: [git]").mcp_servers == ("git",)


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("model: opus", "line 4, model: no model is known for `opus`"),
        ("tools: WebFetch", "line 4, tools: WebFetch: there is no such tool here"),
        ("tools: Frob", "line 4, tools: Frob: no tool of this name is known"),
        ("tools: Bash(ls:*)", "line 4, tools: Bash(ls:*): the words in parentheses do not hold"),
        ("permissionMode: bypassPermissions", "line 4, permissionMode: a role gives no right"),
        ("hooks: x", "line 4, hooks: it has no effect here"),
        (
            "color: red\nmcpServers:\n  git: {command: x}",
            "line 5, mcpServers: an agent file starts",
        ),
        ("effort: huge", "line 4, effort: 'huge' is not known; there are minimal"),
    ],
)
def test_what_does_not_hold_is_said_with_file_and_line(front, words):
    assert any(f"/a/finder.md, {words}" in text for text in role(front).warnings)


def test_model_words_are_mapped_by_the_configuration():
    assert role("model: opus", opus="big").model == "big"
    assert role("model: inherit").model is None
    assert role("model: gpt-5").model == "gpt-5"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Find.", "begins with a front matter that has `name`"),
        ("---\nname: a\ndescription: x\n---\n", "it has no text"),
    ],
)
def test_a_file_that_is_no_agent_says_why(text, words):
    found = FoundMarkdown(path="/a/b.md", root="/a", scope="project", data=text.encode())
    with pytest.raises(UsageError, match=words):
        read_agent_file(found, {})


@pytest.mark.parametrize(
    ("front", "name", "description", "warning"),
    [
        ("name: a/b\ndescription: x", "my-finder", "x", "line 2, name: a role's name has letters"),
        ("name: [a]\ndescription: x", "my-finder", "x", "it is called my-finder, as its file"),
        ("description: x", "my-finder", "x", "it has no name; it is called my-finder"),
        ("name: a", "a", "Find it.", "it has no `description`"),
        ("name: Code Finder\ndescription: x", "Code Finder", "x", ""),
        ("name: a\ndescription: [Finds, 'all: of it']", "a", "Finds all: of it", ""),
        ("name: a\ndescription: Use when: asked", "a", "Use when: asked", ""),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_odd_in_an_agent_file_costs_itself_and_is_said(
    front, name, description, warning, end
):
    text = f"---\n{front}\n---\n\n# Finder\nFind it.\n".replace("\n", end)
    found = FoundMarkdown(
        path="/a/my.finder.md", root="/a", scope="project", data=text.encode("utf-8-sig")
    )
    role = read_agent_file(found, {})
    assert (role.name, role.description) == (name, description)
    assert len(role.warnings) == bool(warning)
    assert warning in "".join(role.warnings)


def test_an_agent_file_whose_own_name_is_none_either_says_so():
    data = b"---\nname: '/'\ndescription: x\n---\nFind."
    found = FoundMarkdown(path="/a/\u0394.md", root="/a", scope="project", data=data)
    with pytest.raises(UsageError, match=r"line 2, name: .* neither is its file's"):
        read_agent_file(found, {})


WORDS = st.sampled_from(
    ["Read", "Bash", "Bash(rm:*)", "Write", "Edit", "Task", "mcp__a__b", "*", "exec_command", "X"]
)


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=3),
       st.sampled_from(["", "bypassPermissions", "acceptEdits", "plan", "dontAsk"]))  # fmt: skip
def test_no_file_gives_more_than_the_parent_has(tools, without, mode):
    made = role(f"tools: {tools}\ndisallowedTools: {without}\npermissionMode: {mode}")
    asks = Limits(sandbox=DangerFullAccess(), approval="untrusted")
    narrowed = narrow_limits(asks, made)
    assert narrowed.approval in {"untrusted", "never"}
    assert narrow_limits(Limits(approval="never"), made).approval == "never"


def test_a_projects_files_are_roles_and_a_faulty_one_hides_no_other(tmp_path: Path):
    folder = tmp_path / ".claude" / "agents"
    good = b"---\nname: finder\ndescription: Finds.\nmodel: haiku\n---\nFind.\n"
    files = {
        str(folder / "finder.md"): good,
        str(folder / "explorer.md"): b"No front matter.",
        str(folder / "guardian.md"): good.replace(b"finder", b"guardian"),
    }
    source = str(tmp_path / ".swarm" / "config.toml")
    layer = Layer(name="project", source=source, files=files, project_folder=str(tmp_path))
    roles = load_roles([layer])
    assert roles.known["finder"].developer_instructions == "Find."
    assert roles.known["explorer"].source == roles.known["guardian"].source == "built-in"
    assert any("explorer.md: an agent file begins" in text for text in roles.warnings)
    assert any("guardian.md: the role `guardian` is swarm's own" in text for text in roles.warnings)
    assert any(
        "does not hold" in text or "not all that they say" in text for text in roles.warnings
    )


def test_the_persons_own_files_and_those_of_plugins_are_roles(tmp_path: Path):
    for place in ("own/agents", "kit/agents"):
        (tmp_path / place).mkdir(parents=True)
        text = "---\nname: mine\ndescription: Mine.\n---\nDo.\n"
        (tmp_path / place / "mine.md").write_text(text)
    parts = PluginParts(
        plugin_id="kit@market",
        root=str(tmp_path / "kit"),
        digest="1",
        manifest=PluginManifest(name="kit", path="plugin.json", agents=("agents",)),
        agents=(str(tmp_path / "kit/agents/mine.md"), str(tmp_path / "kit/agents/gone.md")),
    )
    own = Layer(name="user", source=str(tmp_path / "own" / "config.toml"))
    roles = load_roles([Layer(name="plugin kit", plugin=parts), own])
    assert {"mine", "kit:mine"} <= roles.known.keys()
    assert any("gone.md" in text for text in roles.warnings)
