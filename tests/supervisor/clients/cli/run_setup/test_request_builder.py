"""From options, front matter and configuration to one request; flags win, keys stay out of it."""

import json

import pytest

from support.nested_fields import field_of
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import Budget, DangerFullAccess, ReadOnly, WorkspaceWrite
from swarm.supervisor.clients.cli.run_setup.options import RunOptions
from swarm.supervisor.clients.cli.run_setup.request_builder import build_request, default_max_agents
from swarm.supervisor.clients.cli.run_setup.run_settings import load_settings
from swarm.supervisor.clients.cli.run_setup.task_file import parse_task

PROVIDER = (
    "[model_providers.mine]\nname = 'Mine'\nbase_url = 'http://127.0.0.1:9/v1'\n"
    "env_key = 'MINE_KEY'\nenv_http_headers = {'x-org' = 'MINE_ORG'}\n"
)


@pytest.fixture
def build(tmp_path, monkeypatch):
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / "src" / "one").mkdir(parents=True)
    (project / "src" / "one" / "a.py").write_text("A = 1\n")
    monkeypatch.chdir(project)

    def make(front="", file="", environment=None, **options):
        (home / "config.toml").write_text(file)
        text = f"---\n{front}\n---\nThe task." if front else "The task."
        task = parse_task(text, name="t.md", task="t.md")
        chosen = RunOptions(**options)
        everything = {"SWARM_HOME": str(home), "PATH": "/bin", **(environment or {})}
        settings = load_settings(chosen, task, everything)
        return build_request(
            chosen, settings, environment=everything, run_lines=lambda *_: "x\ny\n"
        )

    return make


def test_the_built_in_values(build, tmp_path):
    request = build().request
    assert request.cwd == str(tmp_path / "project")
    assert request.sandbox == WorkspaceWrite()
    assert (request.approvals.approval, request.approvals.reviewer) == ("on-request", "guardian")
    assert request.team.max_agents == default_max_agents() >= 8
    assert (request.model_settings.model, request.model_settings.provider, request.deadline_s) == (
        None,
        None,
        None,
    )
    assert (request.role.name, request.prompt, request.keys) == ("default", "The task.", {})


@pytest.mark.parametrize(
    ("file", "front", "options", "name", "value"),
    [
        ("model = 'c'", "", {}, "model", "c"),
        ("model = 'c'", "model: t", {}, "model", "t"),
        ("model = 'c'", "model: t", {"config": ("model=o",)}, "model", "o"),
        ("model = 'c'", "model: t", {"config": ("model=o",), "model": "f"}, "model", "f"),
        ("model_reasoning_effort = 'high'", "", {"role": "explorer"}, "effort", "low"),
        ("", "effort: xhigh", {"role": "explorer"}, "effort", "xhigh"),
        ("[agents]\nmax_threads = 3", "", {}, "max_agents", 4),
        ("[agents]\nmax_threads = 3", "max_agents: 9", {}, "max_agents", 9),
        ("[agents]\nmax_threads = 3", "max_agents: 9", {"max_agents": 1}, "max_agents", 1),
        ("[agents]\nmax_depth = 1", "", {}, "max_depth", 1),
        ("approval_policy = 'never'", "", {}, "approval", "never"),
        ("approval_policy = 'never'", "approval: untrusted", {}, "approval", "untrusted"),
        ("deadline = '1h'", "", {}, "deadline_s", 3600),
        ("deadline = '1h'", "deadline: 90", {"deadline": "30m"}, "deadline_s", 1800),
        ("", "budget: {tokens: 5, usd: 1}", {"budget_tokens": 7}, "budget",
         Budget(tokens=7, usd=1)),
        ("model_provider = 'ollama'", "provider: lmstudio", {}, "provider", "lmstudio"),
        ("sandbox_mode = 'read-only'", "", {}, "sandbox", ReadOnly()),
        ("sandbox_mode = 'read-only'", "", {"sandbox": "danger-full-access"}, "sandbox",
         DangerFullAccess()),
        ("", "", {"role": "explorer", "sandbox": "danger-full-access"}, "sandbox", ReadOnly()),
        ("[sandbox_workspace_write]\nnetwork_access = true", "", {}, "sandbox",
         WorkspaceWrite(network_access=True)),
        ("", "", {"require_sandbox": "net,fs,net"}, "require_sandbox", ("net", "fs")),
        ("developer_instructions = 'Be brief.'", "", {}, "role.developer_instructions",
         "Be brief."),
    ],
)  # fmt: skip
def test_the_higher_layer_wins(build, file, front, options, name, value):
    found = build(front, file, **options).request
    for step in name.split("."):
        found = field_of(found, step)
    assert found == value


@pytest.mark.parametrize(
    ("front", "options", "words"),
    [
        ("", {"role": "explorr"}, "unknown role `explorr`; did you mean `explorer`"),
        ("fan_out: {role: none, each: {dirs: src/*}, prompt: p}", {}, "unknown role `none`"),
        ("", {"provider": "olama"}, "`olama` not found; did you mean `ollama`"),
        ("", {"provider": "scripted:gone.yaml"}, "there is no file .*gone.yaml"),
        ("", {"cd": "/does/not/exist"}, "is not a folder"),
        ("", {"add_dir": ("none",)}, "--add-dir: there is no folder"),
        ("", {"image": ("none.png",)}, "--image: there is no file"),
        ("", {"replay": "none.cassette"}, "--replay: there is no file"),
        ("", {"require_sandbox": "fs,gpu"}, "--require-sandbox knows fs and net, not 'gpu'"),
        ("", {"deadline": "soon"}, "flags, deadline: 'soon' is not a length of time"),
        ("", {"config": ("approval_timeout='soon'",)}, "-c, approval_timeout: 'soon' is not a len"),
        ("", {"output_schema": "none.json"}, "--output-schema: none.json: No such file"),
        ("output_schema: {type: 5}", {}, "output_schema: not a usable JSON schema"),
        ("budget: {tokens: 0}", {}, "budget.tokens: must be more than 0"),
        ("context: ['/etc/*']", {}, "stay inside"),
        ("", {"config": ("model",)}, "missing '='"),
        ("", {"profile": "none"}, "config profile `none` not found"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(build, front, options, words):
    with pytest.raises(UsageError, match=words):
        build(front, **options)


def test_keys_are_named_and_never_in_the_request(build, tmp_path):
    prepared = build(file=PROVIDER)
    task = parse_task("The task.", name="t.md", task="t.md")
    settings = load_settings(RunOptions(), task, {"SWARM_HOME": str(tmp_path / "home")})
    assert {"OPENAI_API_KEY", "MINE_KEY", "MINE_ORG"} <= set(settings.key_variables)
    (spec,) = prepared.request.gateway.providers
    assert (spec.id, spec.env_key, spec.env_http_headers) == (
        "mine", "MINE_KEY", {"x-org": "MINE_ORG"},
    )  # fmt: skip


def test_a_literal_token_travels_as_a_key(build):
    config = PROVIDER.replace("env_key = 'MINE_KEY'", "experimental_bearer_token = 'sk-literal'")
    prepared = build(file=config)
    (spec,) = prepared.request.gateway.providers
    assert spec.env_key is not None
    assert prepared.literal_keys == {spec.env_key: "sk-literal"}
    assert "sk-literal" not in str(prepared.request)


def test_a_provider_we_cannot_speak_to_is_an_error_only_when_it_is_chosen(build):
    config = "[model_providers.aws]\nbase_url = 'http://elsewhere.example/v1'\naws = {}\n"
    prepared = build(file=config)
    assert prepared.request.gateway.providers == ()
    assert any("has no https" in words for words in prepared.warnings)
    with pytest.raises(UsageError, match="has no https"):
        build(file=config, provider="aws")


def test_a_fan_out_holds_its_items_role_and_narrowed_sandbox(build):
    request = build(
        "fan_out:\n  each: {dirs: 'src/*'}\n  prompt: 'What is {item}?'\n  context: ['*.py']\n"
        "  output_schema: {type: object}\n  concurrency: 3"
    ).request
    fan = request.fan_out
    assert fan is not None
    assert (fan.items, fan.role, fan.concurrency) == (("src/one",), "explorer", 3)
    assert fan.texts == ("File a.py:\n```\nA = 1\n```",)
    assert (request.fan_out.agents.role.name, request.fan_out.agents.role.locked) == (
        "explorer",
        True,
    )
    assert (request.fan_out.agents.sandbox, request.fan_out.agents.model_settings.effort) == (
        ReadOnly(),
        "low",
    )
    assert request.sandbox == WorkspaceWrite()


def test_a_fan_out_of_lines_asks_for_them(build):
    request = build("fan_out: {each: {lines: ls}, prompt: p, role: worker}").request
    assert request.fan_out is not None
    assert request.fan_out.items == ("x", "y")
    assert request.fan_out.agents.sandbox is None


def test_context_is_added_to_the_prompt(build):
    request = build("context: ['src/**/*.py']").request
    assert request.prompt == "The task.\n\nFile src/one/a.py:\n```\nA = 1\n```"
    assert any("no file" in words for words in build("context: ['*.rs']").warnings)


def test_extra_folders_are_writable_roots(build, tmp_path):
    request = build(add_dir=(str(tmp_path / "home"),)).request
    assert request.sandbox == WorkspaceWrite(writable_roots=(str(tmp_path / "home"),))
    assert request.add_dirs == (str(tmp_path / "home"),)


def test_a_schema_may_be_a_file_or_part_of_the_task(build, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"type": "string"}))
    assert build(output_schema=str(tmp_path / "s.json")).request.output_schema == {"type": "string"}
    assert build("output_schema: {type: object}").request.output_schema == {"type": "object"}


def test_guidance_and_the_environment_are_handed_on(build, tmp_path):
    (tmp_path / "project" / "AGENTS.md").write_text("Use tabs.")
    request = build(environment={"EDITOR": "vi"}).request
    assert request.inherited.user_instructions == "Use tabs."
    assert request.environment["EDITOR"] == "vi"


@pytest.mark.parametrize(
    ("file", "options", "root", "child"),
    [
        ("review_model = 'r'", {}, None, "r"),  # of agents that review, and of no other
        ("review_model = 'r'", {"role": "code-reviewer"}, "r", "r"),
        ("review_model = 'r'\nmodel = 'c'", {"reviews": True}, "r", "r"),
        ("review_model = 'r'", {"reviews": True, "role": "mine"}, "r", "r"),
        ("review_model = 'r'", {"reviews": True, "role": "pinned"}, "p", "r"),
        ("review_model = 'r'", {"reviews": True, "model": "f"}, "f", "r"),
        ("review_model = 'r'", {"reviews": True, "config": ("model=o",)}, "o", "r"),
        ("", {"reviews": True, "config": ("review_model=o", "model=c")}, "c", "o"),
        ("model = 'c'", {"reviews": True}, "c", None),
    ],
)
def test_the_review_model_is_that_of_reviews_unless_a_role_or_a_flag_names_one(
    build, tmp_path, file, options, root, child
):
    agents = tmp_path / "home" / "agents"
    agents.mkdir()
    for name, more in (("mine", ""), ("pinned", "model = 'p'\n")):
        words = f"name = '{name}'\ndescription = 'd'\ndeveloper_instructions = 'Look.'\n"
        (agents / f"{name}.toml").write_text(words + more)
    wanted = {"role": "code-reviewer", **options} if options.get("reviews") else options
    request = build(file=file, **wanted).request
    assert request.model_settings.model == root
    assert request.roles.known["code-reviewer"].model == child
