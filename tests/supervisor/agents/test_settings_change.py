"""What a person may change of a living agent: only ever less than it has."""

import msgspec
import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.model_reference import ModelReference
from swarm.mailbox.base.path_rules import make_rules, may_read
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Granular,
    Limits,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.run_providers import RunProviders
from swarm.supervisor.agents.settings_change import (
    changed_plan,
    describe_change,
    settings_of,
    with_settings,
)

PROVIDERS = RunProviders(own="openai", further=("ollama",), known=("openai", "ollama", "mine"))


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "work" / "below").mkdir(parents=True)
    (tmp_path / "work" / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / "extra").mkdir()
    (tmp_path / "else").mkdir()
    return AgentPlan(
        path="/root",
        agent_id="a",
        role=RoleBrief(),
        limits=Limits(sandbox=WorkspaceWrite(writable_roots=(str(tmp_path / "extra"),))),
        cwd=str(tmp_path / "work"),
        model_settings=ModelSettings(model="old"),
    )


def change(plan, **request):
    return changed_plan(plan, ChangeSettings(agent="/root", **request), providers=PROVIDERS)


def with_limits(plan, **limits):
    return msgspec.structs.replace(plan, limits=msgspec.structs.replace(plan.limits, **limits))


def test_what_is_not_named_stays(plan):
    assert change(plan) == plan
    assert describe_change(plan, change(plan)) == ""


def test_a_provider_is_named_before_the_model_or_by_itself(plan):
    after = change(plan, model="ollama:qwen:7b")
    assert after.model_reference == ModelReference(provider="ollama", model="qwen:7b")
    assert describe_change(plan, after) == "provider ollama, model qwen:7b"
    assert change(after, model="other").model_reference.provider == "ollama"
    assert change(after, provider="").model_reference.provider is None
    alone = change(plan, provider="ollama")
    assert alone.model_reference == ModelReference(provider="ollama")


def test_a_chosen_model_has_the_whole_fallback_list_before_it_again(plan):
    used = msgspec.structs.replace(
        plan, model_settings=ModelSettings(model="old", fallback=("ollama:q",)), fallbacks_taken=1
    )
    assert change(used, model="new").fallbacks_taken == 0
    assert change(used, effort="low").fallbacks_taken == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"provider": "mine"}, "not part of this run"),
        ({"provider": "nobody"}, "no provider is called `nobody`"),
        ({"model": "mine:m"}, "not part of this run"),
        ({"model": "ollama:"}, "names no model"),
        ({"model": "ollama:q", "provider": "openai"}, "not a model of provider openai"),
    ],
)
def test_a_provider_that_has_no_key_in_this_run_is_refused(plan, asked, words):
    with pytest.raises(UsageError, match=words):
        change(plan, **asked)


def test_model_effort_summary_and_verbosity_change_freely(plan):
    after = change(plan, model="new", effort="high", summary="none", verbosity="low")
    assert after.model_settings == ModelSettings(
        model="new", effort="high", summary="none", verbosity="low"
    )
    words = describe_change(plan, after)
    assert words == "model new, effort high, summary none, verbosity low"
    back = change(after, model="", effort="")
    assert back.model_settings == ModelSettings(summary="none", verbosity="low")


SANDBOXES = {
    "read-only": ReadOnly(),
    "workspace-write": WorkspaceWrite(),
    "danger-full-access": DangerFullAccess(),
}


@pytest.mark.parametrize("has", SANDBOXES)
@pytest.mark.parametrize("wanted", SANDBOXES)
def test_a_sandbox_only_becomes_narrower(plan, has, wanted):
    plan = with_limits(plan, sandbox=SANDBOXES[has])
    order = list(SANDBOXES)
    if order.index(wanted) > order.index(has):
        with pytest.raises(UsageError, match=f"has sandbox {has}; .*only become less"):
            change(plan, sandbox=wanted)
    else:
        policy = change(plan, sandbox=wanted).limits.sandbox
        assert policy.__struct_config__.tag == wanted


@pytest.mark.parametrize(
    ("has", "wanted", "allowed"),
    [
        ("on-request", "untrusted", True),
        ("on-request", "on-failure", True),
        ("on-failure", "on-request", False),
        ("untrusted", "on-request", False),
        ("untrusted", "never", False),  # not asking would let more run
        ("on-request", "never", True),  # what would ask is refused
        ("never", "on-request", False),
        ("on-request", "on-request", True),
    ],
)
def test_an_approval_policy_only_becomes_stricter(plan, has, wanted, allowed):
    plan = with_limits(plan, approval=has, granular=Granular())
    if not allowed:
        with pytest.raises(UsageError, match="only become less"):
            change(plan, approval=wanted)
        return
    after = change(plan, approval=wanted).limits
    assert after.approval == wanted
    assert (after.granular is None) == (wanted != "on-request")


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("below", True),
        ("../extra", True),
        ("../else", False),
        ("..", False),
        ("/", False),
        (".git/hooks", False),  # it would become writable
        (".git", False),
        ("nowhere", False),
    ],
)
def test_a_folder_must_lie_within_what_is_writable(plan, folder, allowed):
    if allowed:
        assert change(plan, cwd=folder).cwd.endswith(folder.removeprefix(".."))
    else:
        with pytest.raises(UsageError, match=r"not within|no folder"):
            change(plan, cwd=folder)


def test_a_link_out_of_the_workspace_is_no_way_out(plan, tmp_path):
    (tmp_path / "work" / "link").symlink_to(tmp_path / "else")
    with pytest.raises(UsageError, match="not within"):
        change(plan, cwd="link")


def test_who_may_only_read_may_read_anywhere(plan, tmp_path):
    plan = with_limits(plan, sandbox=ReadOnly())
    assert change(plan, cwd="../else").cwd == str(tmp_path / "else")


@pytest.mark.parametrize("changes", [{"sandbox": "read-only"}, {"cwd": "below"}])
def test_a_locked_agent_keeps_its_sandbox_and_its_folder(plan, changes):
    plan = msgspec.structs.replace(plan, role=RoleBrief(name="explorer", locked=True))
    with pytest.raises(UsageError, match="locked"):
        change(plan, **changes)


@pytest.mark.parametrize("changes", [{"effort": "huge"}, {"model": "a\nb"}, {"model": "x" * 300}])
def test_nonsense_is_refused(plan, changes):
    with pytest.raises(UsageError):
        change(plan, **changes)


def test_a_resumed_run_keeps_what_was_changed_and_gives_nothing_back(plan):
    settings = settings_of(change(plan, model="new", sandbox="read-only", approval="untrusted"))
    again = with_settings(plan, settings)
    assert (again.model_settings.model, again.limits.approval) == ("new", "untrusted")
    assert isinstance(again.limits.sandbox, ReadOnly)
    tighter = with_limits(plan, sandbox=ReadOnly(), approval="never")  # the run itself was narrowed
    wide = settings_of(change(plan, effort="low"))
    assert with_settings(tighter, wide).limits == tighter.limits


def test_under_a_permission_profile_only_its_own_rights_are_left(plan, tmp_path):
    rules = make_rules([(plan.cwd, "write"), (str(tmp_path / "work" / "below"), "deny")])
    policy = ProfilePolicy(name="p", rules=rules, workspace=(plan.cwd,))
    plan = with_limits(plan, sandbox=policy)
    reading = change(plan, sandbox="read-only").limits.sandbox
    assert isinstance(reading, ProfilePolicy)
    assert may_read(reading, plan.cwd)
    assert not may_read(reading, f"{plan.cwd}/below")
    assert not any(rule.access == "write" for rule in reading.rules)
    with pytest.raises(UsageError, match="can only become less"):
        change(plan, sandbox="workspace-write")
    for folder in ("below", str(tmp_path / "else")):
        with pytest.raises(UsageError, match="not within what /root may read"):
            change(plan, cwd=folder)
