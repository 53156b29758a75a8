"""Settings that change while the agent lives are seen by everybody who holds the same object."""

from types import SimpleNamespace

from support.nested_fields import with_fields
from swarm.mailbox.protocol.ops import LearnRule
from swarm.mailbox.protocol.settings import AgentSettings
from swarm.mailbox.protocol.values.limits import Limits, ReadOnly
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.policy.command_facts import EscalationRequest
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.approval_requester import ApprovalRequester
from swarm.worker.tools.interface.tool_context import ToolContext


def test_tools_and_approvals_follow_the_settings_at_once():
    current = CurrentSpec(FAKE_AGENT_SPEC)
    context, requester = ToolContext(current, None), ApprovalRequester(current, None)
    limits = Limits(sandbox=ReadOnly(), reviewer="nobody")
    current.apply_settings(AgentSettings(limits=limits, cwd="/w/b"))
    assert (context.limits, str(context.cwd)) == (limits, "/w/b")
    assert not requester.can_ask
    current.apply_settings(AgentSettings(limits=Limits(reviewer="person")))
    assert str(context.cwd) == "/w/b", "no folder named: it stays"
    assert requester.can_ask


def test_a_saved_prefix_holds_for_the_next_command_and_a_second_one_too():
    current = CurrentSpec(FAKE_AGENT_SPEC)
    commands = SimpleNamespace(outside_environment=lambda: {"PATH": "/usr/bin:/bin"})
    context = ToolContext(current, commands)

    def decisions(*argv):
        facts = context.command_facts(argv, EscalationRequest())
        return [rule.decision for one in facts.commands for rule in one.rules]

    assert decisions("make", "all") == []
    current.learn(LearnRule(prefix=("make",)))
    assert decisions("make", "all") == ["allow"]
    current.learn(LearnRule(prefix=("cargo",)))
    assert decisions("cargo", "test") == ["allow"]
    assert decisions("make", "all") == ["allow"]


def test_in_a_copy_that_is_another_folder_a_new_folder_of_the_project_is_the_copys():
    spec = with_fields(FAKE_AGENT_SPEC, cwd="/copy", origin="/nowhere/project", tree="/copy")
    current = CurrentSpec(spec)
    for given, wanted in (("/nowhere/project/sub", "/copy/sub"), ("", "/copy/sub"), ("/x", "/x")):
        current.apply_settings(AgentSettings(cwd=given))
        assert current.spec.cwd == wanted
