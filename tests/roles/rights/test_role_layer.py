"""A role's file is a layer of the configuration, within what a role may do."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.tool_names import ALWAYS_KEPT, TOOL_NAMES
from swarm.mailbox.protocol.settings import SamplingSettings, ToolChoice
from swarm.mailbox.protocol.spec import ContextOverrides
from swarm.mailbox.protocol.values.limits import McpAccess
from swarm.roles.config.layers.config_loader import load_config, read_layer
from swarm.roles.rights.narrow import narrow_role_servers
from swarm.roles.rights.role_layer import OF_THE_RUN, WIDENS
from swarm.roles.role_loader import UnusableRole, find_role, load_roles

GOOD = "name = 'scout'\ndescription = 'looks'\ndeveloper_instructions = 'Look.'\n"


@pytest.fixture
def layer(tmp_path):
    def make(config="", **files):
        (tmp_path / "config.toml").write_text(config)
        (tmp_path / "agents").mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / "agents" / f"{name}.toml").write_text(text)
        return read_layer("user", tmp_path / "config.toml")

    return make


def scout_of(layer, text, config=""):
    roles = load_roles([layer(config, scout=GOOD + text)])
    return find_role(roles, "scout"), roles.warnings


@pytest.mark.parametrize("key", WIDENS)
def test_a_key_that_would_widen_rights_is_refused_by_name(layer, key):
    with pytest.raises(UnusableRole, match=f"line 4, {key}: a role may not set it"):
        scout_of(layer, f"{key} = true")


@pytest.mark.parametrize("key", [*OF_THE_RUN, "web_search", "history"])
def test_a_key_without_effect_in_a_role_is_a_warning(layer, key):
    _, warnings = scout_of(layer, f"{key} = true")
    assert any(f"line 4, {key}: " in warning for warning in warnings)


def test_a_table_of_a_server_takes_it_or_some_of_its_tools_away(layer):
    text = "[mcp_servers.docs]\nenabled = false\n[mcp_servers.git]\nenabled_tools = ['log']"
    role, warnings = scout_of(layer, text)
    assert warnings == ()
    parent = (McpAccess(server="docs"), McpAccess(server="git"), McpAccess(server="time"))
    assert narrow_role_servers(parent, role) == (
        McpAccess(server="git", tools=("log",)),
        McpAccess(server="time"),
    )


def test_a_role_defines_no_server(layer):
    with pytest.raises(UnusableRole, match=r"scout\.toml.*mcp_servers.*command"):
        scout_of(layer, "[mcp_servers.docs]\ncommand = 'docs'")


def test_an_unknown_key_names_file_line_and_the_nearest(layer):
    with pytest.raises(UnusableRole, match=r"scout\.toml, line 4, modle: unknown key; did you"):
        scout_of(layer, "modle = 'x'")


def test_what_a_role_may_decide_is_obeyed(layer):
    text = """
        model_reasoning_summary = "detailed"
        model_verbosity = "low"
        model_context_window = 9000
        model_auto_compact_token_limit = 7000
        compact_prompt = "Sum it up."
        include_permissions_instructions = false
        prompt = "short"
        temperature = 0.2
        top_p = 0.5
        seed = 3
    """
    scout, warnings = scout_of(layer, text)
    assert not warnings
    assert (scout.summary, scout.verbosity) == ("detailed", "low")
    brief = scout.brief()
    assert brief.prompt == "short"
    assert brief.sampling == SamplingSettings(temperature=0.2, top_p=0.5, seed=3)
    assert brief.context == ContextOverrides(
        window_tokens=9000, compact_tokens=7000, compact_prompt="Sum it up.", permissions=False
    )


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("tools = ['list_dir']", ToolChoice(only=("list_dir",))),
        ("tools = []", ToolChoice(only=())),
        ("tools.exclude = ['list_dir']", ToolChoice(exclude=("list_dir",))),
        ("[tools]\nview_image = false", ToolChoice(exclude=("view_image",))),
        (
            "[features]\nrequest_permissions_tool = false",
            ToolChoice(exclude=("request_permissions",)),
        ),
        ("[features]\nmulti_agent = true", ToolChoice()),
    ],
)  # fmt: skip
def test_a_role_chooses_tools(layer, text, choice):
    assert scout_of(layer, text)[0].tools == choice


def test_a_role_without_a_team_has_no_tool_of_one(layer):
    tools = scout_of(layer, "[features]\nmulti_agent = { enabled = false }")[0].tools
    assert not tools.allows("spawn_agent")
    assert not tools.allows("send_message")
    assert tools.allows("exec_command")


def test_a_table_takes_away_from_the_roles_file_and_says_how_responses_are_sampled(layer):
    config = "[agents.explorer]\ntools = ['exec_command', 'list_dir']\ntemperature = 0.1"
    explorer = find_role(load_roles([layer(config)]), "explorer")
    assert explorer.tools == ToolChoice(only=("exec_command", "list_dir"))
    assert explorer.sampling.temperature == 0.1
    assert explorer.sandbox_mode == "read-only"


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ("tools = ['shell']", "line 1, tools"),
        ("[tools]\nexclude = ['shell']", "line 2, tools.exclude"),
        ("[agents.x]\ndescription = 'd'\ntools = ['shell']", "line 3, agents.x.tools"),
    ],
)
def test_an_unknown_tool_is_an_error_with_file_line_and_the_list(layer, config, place):
    with pytest.raises(UsageError) as caught:
        load_config([layer(config)])
    assert f"config.toml, {place}: there is no tool `shell`" in str(caught.value)
    assert ", ".join(TOOL_NAMES) in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "left"),
    [
        (ToolChoice(), ToolChoice(), TOOL_NAMES),
        (ToolChoice(only=("list_dir", "exec_command")), ToolChoice(), ("exec_command", "list_dir")),
        (
            ToolChoice(only=("list_dir",)), ToolChoice(only=("list_dir", "exec_command")),
            ("list_dir",),
        ),
        (ToolChoice(only=("list_dir",)), ToolChoice(exclude=("list_dir",)), ()),
    ],
)  # fmt: skip
def test_choices_only_take_away(one, other, left):
    for both in (one.narrowed(other), other.narrowed(one)):
        allowed = [name for name in TOOL_NAMES if both.allows(name)]
        assert [name for name in allowed if name not in ALWAYS_KEPT] == [
            name for name in left if name not in ALWAYS_KEPT
        ]
        assert set(allowed) >= ALWAYS_KEPT  # else a job's item could not end
