"""A run is held to the requirements when it starts and when it goes on; nothing widens it."""

import json

import pytest

from support.nested_fields import with_fields
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.requests import Spawn
from swarm.mailbox.protocol.rules import NetworkRule, PrefixRule, RuleSet
from swarm.mailbox.protocol.values.limits import (
    Budget,
    DangerFullAccess,
    Granular,
    Limits,
    NetworkPolicy,
    ReadOnly,
    ResourceLimits,
    UnixSockets,
    WorkspaceWrite,
)
from swarm.roles.config.layers.config_loader import read_requirements
from swarm.roles.config.layers.requirements import NO_REQUIREMENTS
from swarm.roles.rights.proxy_policy import apply_network_requirements
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import Roles
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.child_plan import AgentRequestError, check_spawn_request
from swarm.supervisor.agents.settings_change import check_requirements
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.clients.cli.run_setup.run_requirements import (
    apply_requirements,
    apply_requirements_to_saved,
    denied_paths,
)
from swarm.supervisor.parts.network.network_policy import with_rules
from swarm.supervisor.request.run_request import (
    FanOut,
    ItemAgents,
    RequiredChoices,
    ReviewSettings,
    RunRequest,
)

LIMITS = Limits()
REQUEST = with_fields(RunRequest(cwd="/work", sandbox=WorkspaceWrite()), reviewer="person")


def fan_out_in(sandbox):
    return FanOut(items=("a",), prompt="p", agents=ItemAgents(sandbox=sandbox))


@pytest.fixture
def held(tmp_path):
    def make(text):
        (tmp_path / "requirements.toml").write_text(text)
        found = read_requirements([tmp_path])
        assert not found.broken, found.broken
        return found

    return make


def test_without_requirements_nothing_is_held():
    assert apply_requirements(REQUEST, NO_REQUIREMENTS) == REQUEST
    assert apply_requirements_to_saved(REQUEST, NO_REQUIREMENTS) == REQUEST


@pytest.mark.parametrize(
    ("text", "change", "words"),
    [
        ("allowed_sandbox_modes = ['read-only']", {}, 'sandbox = "workspace-write" is not allowed'),
        ("allowed_sandbox_modes = ['read-only']",
         {"sandbox": ReadOnly(), "fan_out": fan_out_in(WorkspaceWrite())}, "is not allowed"),
        ("allowed_sandbox_modes = ['read-only', 'workspace-write']",
         {"sandbox": DangerFullAccess()}, 'sandbox = "danger-full-access"'),
        ("permissions = { filesystem = { deny_read = ['/x'] } }",
         {"sandbox": DangerFullAccess()}, "permissions can only be kept in a sandbox"),
        ("experimental_network = { enabled = true }",
         {"sandbox": DangerFullAccess()}, "experimental_network can only be kept"),
        ("allowed_approval_policies = ['on-request']", {"approval": "never"}, "approval never"),
        ("allowed_approval_policies = ['on-request']", {"granular": Granular()}, "approval "),
        ("allowed_approvals_reviewers = ['user']", {"reviewer": "guardian"}, "reviewer guardian"),
        ("guardian_policy_config = 'Deny.'", {"auto_review": ReviewSettings(policy="Allow.")},
         "another policy of the reviewer"),
    ],
)  # fmt: skip
def test_a_request_beyond_the_requirements_neither_starts_nor_goes_on(held, text, change, words):
    request = with_fields(REQUEST, **change)
    for hold in (apply_requirements, apply_requirements_to_saved):
        with pytest.raises(UsageError, match=words) as caught:
            hold(request, held(text))
        assert "requirements.toml, line 1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("allowed_sandbox_modes = ['read-only']", {"sandbox": ReadOnly()}),
        ("allowed_approval_policies = ['untrusted']", {"approval": "untrusted"}),
        ("allowed_approvals_reviewers = ['user']", {"reviewer": "nobody"}),
        ("[[allowed_approval_policies]]\ngranular = { sandbox_approval = true, rules = true, "
         "mcp_elicitations = true }", {"granular": Granular()}),
    ],
)  # fmt: skip
def test_a_request_within_the_requirements_goes_on_as_it_was(held, text, change):
    request = with_fields(REQUEST, **change)
    kept = apply_requirements_to_saved(request, held(text))
    assert with_fields(kept, held=RequiredChoices()) == request


@pytest.mark.parametrize(
    ("pin", "good", "bad"),
    [
        ("model = 'a'", {"model": "a"}, {"model": "b"}),
        ("allow_commit = false", {}, {"allow_commit": True}),
        ("merge = 'ask'", {"merge": "ask"}, {"merge": "auto"}),
        ("agents.max_threads = 3", {"max_agents": 4}, {"max_agents": 5}),
        ("agents.max_depth = 1", {"max_depth": 1}, {"max_depth": 2}),
        ("budget.tokens = 9", {"budget": Budget(tokens=9)}, {"budget": Budget(tokens=10)}),
        ("budget.tokens = 9", {"budget": Budget(tokens=9)}, {}),
        ("limits.command_processes = 20", {"resources": ResourceLimits(command_processes=20)},
         {"resources": ResourceLimits(command_processes=4096)}),
        ("limits.command_seconds = '1m'", {"resources": ResourceLimits(command_s=60.0)}, {}),
        ("auto_review.model = 'a'", {"auto_review": ReviewSettings(model="a")}, {}),
        ("shell_environment_policy.ignore_default_excludes = true", None, {}),
    ],
)  # fmt: skip
def test_a_pin_holds_when_a_run_goes_on(held, pin, good, bad):
    requirements = held(f"[pins]\n{pin}")
    if good is not None:
        apply_requirements_to_saved(with_fields(REQUEST, **good), requirements)
    with pytest.raises(
        UsageError, match=r"requirements.toml, line 2, pins\..* forbids; start a new run"
    ):
        apply_requirements_to_saved(with_fields(REQUEST, **bad), requirements)


def test_what_held_yesterday_does_not_bind_once_it_is_gone(held):
    bound = apply_requirements(
        REQUEST, held("permissions = { filesystem = { deny_read = ['/x'] } }")
    )
    assert (bound.deny_read, bool(bound.inherited.sandbox_required)) == (("/x",), True)
    assert apply_requirements_to_saved(bound, NO_REQUIREMENTS) == REQUEST


def test_requirements_that_cannot_be_read_stop_what_goes_on(tmp_path):
    (tmp_path / "requirements.toml").write_text("x = [")
    with pytest.raises(UsageError, match="not valid TOML"):
        apply_requirements_to_saved(REQUEST, read_requirements([tmp_path]))


def test_required_rules_join_those_of_a_saved_run_once(held):
    requirements = held(
        "[rules]\nprefix_rules = [{ pattern = [{ token = 'git' }, { any_of = ['push', 'pull'] }], "
        "decision = 'forbidden', justification = 'no' }]"
    )
    own = PrefixRule(pattern=(("ls",),))
    required = PrefixRule(
        pattern=(("git",), ("push", "pull")), decision="forbidden", justification="no"
    )
    request = with_fields(REQUEST, rules=RuleSet(prefixes=(own,)))
    once = apply_requirements_to_saved(request, requirements)
    assert once.rules.prefixes == (own, required)
    assert apply_requirements_to_saved(once, requirements).rules.prefixes == (own, required)
    broken = with_fields(REQUEST, rules=RuleSet(broken="a.rules:1: x"))
    with pytest.raises(UsageError, match="requires rules that can be read"):
        apply_requirements_to_saved(broken, requirements)


def test_roles_of_a_saved_run_are_judged_again_and_built_in_ones_stay(held):
    roles = Roles(known={
        "mine": Role(name="mine", approval="never", source="/a.toml"),
        "guardian": Role(name="guardian", approval="never"),
    })  # fmt: skip
    request = with_fields(REQUEST, roles=roles)
    kept = apply_requirements_to_saved(
        request, held("allowed_approval_policies = ['on-request']")
    ).roles
    assert set(kept.known) == {"guardian"}
    assert "requirements.toml, line 1" in kept.broken["mine"]


def test_no_agent_chooses_another_model_than_the_pinned_one():
    asker = AgentPlan(path="/root", agent_id="1", role=REQUEST.role, limits=LIMITS, cwd="/")
    request = Spawn(task_name="x", message="do", model="b")
    check_spawn_request(asker, request)
    check_spawn_request(asker, request, pinned_model="b")
    with pytest.raises(AgentRequestError, match="every agent of this run has the model `a`"):
        check_spawn_request(asker, request, pinned_model="a")


@pytest.mark.parametrize(
    ("change", "held_choices", "word"),
    [
        ({"model": "b"}, RequiredChoices(model="a"), "model b"),
        (
            {"limits": Limits(approval="never")},
            RequiredChoices(approvals=("on-request",)),
            "approval",
        ),
        ({"limits": Limits(sandbox=ReadOnly())}, RequiredChoices(sandbox_modes=("x",)), "sandbox"),
    ],
)
def test_a_living_agent_is_changed_only_to_what_is_allowed(change, held_choices, word):
    before = AgentPlan(
        path="/root", agent_id="1", role=REQUEST.role, cwd="/",
        limits=Limits(sandbox=WorkspaceWrite()),
    )  # fmt: skip
    after = with_fields(before, **change)
    check_requirements(before, after, RequiredChoices())
    check_requirements(before, before, held_choices)
    with pytest.raises(UsageError, match=f"{word}.* is not allowed"):
        check_requirements(before, after, held_choices)


OPEN = NetworkPolicy(allow=("a.org", "b.org"), allow_local_binding=True)


def test_a_managed_list_is_all_that_can_be_reached_whoever_says_yes(held):
    demand = held(
        "[experimental_network]\nenabled = true\nmanaged_allowed_domains_only = true\n"
        "allow_local_binding = false\ndomains = { 'a.org' = 'allow', 'c.org' = 'deny' }"
    ).network
    tight = apply_network_requirements(OPEN, demand)
    assert tight == NetworkPolicy(allow=("a.org",), deny=("c.org",), managed=True)
    rules = RuleSet(network=(NetworkRule(host="b.org", protocol="https", decision="allow"),))
    assert with_rules(tight, rules) == tight
    assert with_rules(OPEN, rules).allow == ("a.org", "b.org", "b.org")
    assert apply_network_requirements(None, demand) is None


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("allow_upstream_proxy = false", False),
        ("allow_upstream_proxy = true", True),
        ("allow_local_binding = false", True),
    ],
)
def test_an_administrator_can_forbid_to_go_through_another_proxy(held, text, stays):
    wide = NetworkPolicy(allow=("a.org",), upstream=True)
    request = with_fields(REQUEST, network=wide)
    kept = apply_requirements_to_saved(request, held(f"experimental_network = {{ {text} }}"))
    assert kept.network.upstream is stays
    assert kept.goes_upstream is stays


def test_only_the_sockets_of_an_administrators_list_are_ever_opened(held):
    text = "[experimental_network]\nunix_sockets = { '/srv/a' = 'allow', '/srv/b' = 'none' }"
    wide = UnixSockets(allow=("/srv/a", "/srv/b", "/srv/c"), every=True)
    request = with_fields(
        REQUEST,
        unix_sockets=wide,
        fan_out=FanOut(items=("a",), prompt="p", agents=ItemAgents(unix_sockets=wide)),
    )
    kept = apply_requirements_to_saved(request, held(text))
    assert kept.unix_sockets == UnixSockets(allow=("/srv/a",), deny=("/srv/b",))
    assert kept.fan_out.agents.unix_sockets == kept.unix_sockets


def test_where_the_proxy_is_required_there_is_no_way_around_it(held):
    requirements = held("experimental_network = { enabled = true }")
    request = with_fields(REQUEST, sandbox=WorkspaceWrite(network_access=True))
    assert apply_requirements_to_saved(request, requirements).sandbox == WorkspaceWrite()


def test_denied_paths_are_those_that_fit_now_and_the_plain_ones(held, tmp_path):
    for name in ("a.key", "b.key", ".c.key", "d.txt"):
        (tmp_path / name).touch()
    requirements = held(
        f"permissions = {{ filesystem = {{ deny_read = ['{tmp_path}/*.key', '/later'] }} }}"
    )
    found = denied_paths(requirements)
    assert sorted(found) == sorted(
        [f"{tmp_path}/a.key", f"{tmp_path}/b.key", f"{tmp_path}/.c.key", "/later"]
    )
    for number in range(2_001):
        (tmp_path / f"{number}.key").touch()
    with pytest.raises(UsageError, match="more than 2000 paths"):
        denied_paths(requirements)


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    (folder / "system").mkdir(parents=True)
    monkeypatch.setenv("SWARM_HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("allowed_sandbox_modes = ['read-only']", ["-s", "workspace-write"], "is not allowed"),
        ("experimental_network = { enabled = true }", ["--network"], "--network is not allowed"),
        ("permissions = { filesystem = { deny_read = ['/x'] } }",
         ["-s", "danger-full-access"], "can only be kept in a sandbox"),
        ("x = [", [], "not valid TOML"),
    ],
)  # fmt: skip
def test_a_command_in_the_sandbox_is_held_too(home, capfd, text, words, said):
    (home / "system" / "requirements.toml").write_text(text)
    assert run_cli(["sandbox", *words, "--", "true"]) == 125
    assert said in capfd.readouterr().err


def test_what_cannot_count_is_not_written_into_the_configuration(home, capfd):
    (home / "system" / "requirements.toml").write_text("allowed_sandbox_modes = ['read-only']")
    assert run_cli(["config", "set", "sandbox_mode", "danger-full-access"]) == 2
    assert "requirements.toml, line 1" in capfd.readouterr().err
    assert not (home / "config.toml").exists()
    assert run_cli(["config", "set", "sandbox_mode", "read-only"]) == 0


def test_requirements_are_shown_with_what_they_hold(home, capfd):
    file = home / "system" / "requirements.toml"
    file.write_text("allowed_sandbox_modes = ['read-only']\nfeatures = { x = true }\n")
    assert run_cli(["config", "layers", "--json"]) == 0
    first = json.loads(capfd.readouterr().out.splitlines()[0])
    assert first == {
        "name": "requirements", "file": str(file), "state": "holds allowed_sandbox_modes, features"
    }  # fmt: skip


def test_the_machines_own_requirements_cannot_be_escaped_by_a_variable(tmp_path):
    machine, mine = tmp_path / "machine", tmp_path / "mine"
    for folder, text in (
        (machine, "allowed_sandbox_modes = ['read-only']"),
        (mine, "allowed_sandbox_modes = ['read-only', 'danger-full-access']\n"
               "allowed_approval_policies = ['on-request']"),
    ):  # fmt: skip
        folder.mkdir()
        (folder / "requirements.toml").write_text(text)
    found = read_requirements([machine, mine])
    assert found.sandbox_modes == ("read-only",)
    assert found.approvals == ("on-request",)
    assert found.place("allowed_sandbox_modes") == f"{machine}/requirements.toml, line 1"
    assert read_requirements([machine, tmp_path / "none"]).sandbox_modes == ("read-only",)
