"""Configuration files: errors name file, line and key; keys of Codex without effect are named."""

import msgspec
import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import Granular
from swarm.roles.config.layers.config_loader import load_config, read_layers
from swarm.roles.config.schema import CODEX_KEYS, AgentsTable, Config


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def load(home, text="", *, strict=False, profile=None):
    (home / "config.toml").write_text(text)
    layers = read_layers(config_folder=home, profile=profile, system_folders=[home / "system"])
    return load_config(layers, strict=strict)


def test_without_any_file_the_built_in_values_count(home):
    layers = read_layers(config_folder=home / "none", system_folders=[home / "none"])
    assert load_config(layers).config == Config()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("model = 3", 1, "model: must be a text"),
        ("\nsandbox_mode = 'none'", 2, "sandbox_mode: 'none' is not known; there are danger-full"),
        ("[model_providers.x]\nname = 'x'\nrequest_max_retries = 'many'", 3,
         "model_providers.*request_max_retries: must be a whole number"),
        ("[agents]\nmax_threads = -1", 2, "agents.max_threads: must not be negative"),
        ("[model_providers.openai]\nname = 'mine'", 1, "built-in providers cannot be redefined"),
        ("profile = 'x'", 1, "use `--profile x`"),
        ("approval_policy = {granular = {rules = true}}", 1, "sandbox_approval"),
        ("approval_policy = 'bogus'", 1, "approval_policy"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_key(home, text, line, words):
    with pytest.raises(UsageError, match=words) as caught:
        load(home, text)
    assert f"{home}/config.toml, line {line}, " in str(caught.value)


def test_a_granular_policy_is_on_request_for_some_kinds_of_questions(home):
    table = "{granular = {sandbox_approval = true, rules = false, mcp_elicitations = false}}"
    config = load(home, f"approval_policy = {table}").config
    assert config.approval == "on-request"
    assert config.granular == Granular(rules=False, mcp_elicitations=False)
    assert load(home, "approval_policy = 'never'").config.granular is None


def test_broken_toml_names_the_file(home):
    with pytest.raises(UsageError, match=r"config\.toml, line 2, column 9: not valid TOML: Inv"):
        load(home, "\nmodel = ")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"a = '\xc3'"])
def test_a_file_that_is_no_text_is_refused(home, data):
    (home / "config.toml").write_bytes(data)
    with pytest.raises(UsageError, match=r"line 1, column \d: not UTF-8"):
        load_config(read_layers(config_folder=home, system_folders=[]))


def test_unknown_keys_warn_with_the_nearest_name(home):
    loaded = load(home, "modle = 'x'\n[agents.scout]\ndescriptoin = 'y'")
    assert [words.partition("line ")[2] for words in loaded.warnings] == [
        "1, modle: unknown key; did you mean `model`?",
        "3, agents.scout.descriptoin: unknown key; did you mean `description`?",
    ]


def test_unknown_keys_are_errors_when_strict(home):
    with pytest.raises(UsageError, match="modle: unknown key"):
        load(home, "modle = 'x'", strict=True)


def test_every_key_of_codex_is_obeyed_or_named(home):
    text = "\n".join(f"{key} = 1" for key in sorted(CODEX_KEYS - {"projects"}))
    for line in text.splitlines():
        (warning,) = load(home, line).warnings
        key = line.partition(" ")[0]
        assert warning.endswith(f"keys of Codex that have no effect here: {key} (line 1)")
        with pytest.raises(UsageError, match=f"no effect here: {key} "):
            load(home, line, strict=True)


def test_all_keys_without_effect_of_a_file_are_one_warning(home):
    text = """
history.persistence = "none"
allow_login_shell = false
[tools]
web_search = true
view_image = true
[mcp_servers.docs]
url = "https://example.org"
scopes = ["read"]
[agents]
default_subagent_model = "m"
[model_providers.mine]
base_url = "https://example.org"
supports_websockets = true
[shell_environment_policy]
experimental_use_profile = false
[permissions.dev.network]
proxy_url = "http://127.0.0.1:1"
"""
    (warning,) = load(home, text).warnings
    assert warning.partition("no effect here: ")[2].split(", ") == [
        "history.persistence (line 2)",
        "allow_login_shell (line 3)",
        "tools.web_search (line 5)",
        "agents.default_subagent_model (line 11)",
        "model_providers.mine.supports_websockets (line 14)",
        "shell_environment_policy.experimental_use_profile (line 16)",
        "permissions.dev.network.proxy_url (line 18)",
    ]


def test_a_key_that_says_what_happens_anyway_is_obeyed(home):
    text = """
allow_login_shell = true
web_search = "disabled"
analytics.enabled = false
tools = { web_search = false }
network.enable_socks5_udp = false
"""
    assert load(home, text, strict=True).warnings == ()


def test_a_warning_names_twenty_keys_and_counts_the_rest(home):
    (warning,) = load(home, "\n".join(f"tui.k{n} = 1" for n in range(25))).warnings
    assert warning.endswith("tui.k19 (line 20) and 5 more")


@pytest.mark.parametrize(
    ("text", "children"),
    [
        ("", None),
        ("max_concurrent_threads_per_session = 3", 3),
        ("max_concurrent_threads_per_session = 3\nmax_threads = 5", 5),
        ("max_concurrent_threads_per_session = 3\nmax_threads = 0", 0),
    ],
)
def test_the_later_name_of_max_threads_counts_where_that_is_not_set(home, text, children):
    loaded = load(home, f"[agents]\n{text}", strict=True)
    assert msgspec.convert(loaded.config.agents, AgentsTable).children == children


def test_a_row_may_not_be_given_no_time(home):
    with pytest.raises(UsageError, match="job_max_runtime_seconds: must be at least 1"):
        load(home, "agents.job_max_runtime_seconds = 0")


def test_the_user_wins_over_the_system_and_a_profile_over_both(home):
    (home / "system").mkdir()
    (home / "system" / "config.toml").write_text("model = 'a'\nmodel_provider = 'ollama'")
    (home / "fast.config.toml").write_text("model_reasoning_effort = 'low'\nmodel = 'c'")
    loaded = load(home, "model = 'b'\nmodel_reasoning_effort = 'high'", profile="fast")
    config = loaded.config
    assert (config.model, config.model_provider, config.model_reasoning_effort) == (
        "c", "ollama", "low",
    )  # fmt: skip
    assert loaded.merged.origins["model_provider",].layer == "system"


@pytest.mark.parametrize("name", ["none", "../config", "a/b", ""])
def test_a_profile_that_is_not_there_is_an_error(home, name):
    with pytest.raises(UsageError, match="profile"):
        load(home, profile=name)


def test_paths_are_relative_to_their_own_file(home):
    config = load(
        home,
        "model_instructions_file = 'base.md'\n"
        "[sandbox_workspace_write]\nwritable_roots = ['out', '/abs', '~/x']\n"
        "[agents.scout]\nconfig_file = 'roles/scout.toml'",
    ).config
    assert config.model_instructions_file == f"{home}/base.md"
    roots = config.sandbox_workspace_write.writable_roots
    assert roots[:2] == (f"{home}/out", "/abs")
    assert roots[2].startswith("/")
    assert config.agents["scout"] == {"config_file": f"{home}/roles/scout.toml"}
