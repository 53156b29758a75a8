"""Commands that need a yes: what is shown, what a yes opens, second tries, sessions outside."""

import json

import msgspec
import pytest

from swarm.mailbox.protocol.approvals import ExtraPermissions
from swarm.mailbox.protocol.events import CallBegan, CallEnded, RequestSent, TurnCompleted
from swarm.mailbox.protocol.items import FunctionCall, text_message
from swarm.mailbox.protocol.ops import Answer
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.rules import PrefixRule, RuleSet
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Granular, Limits, WorkspaceWrite
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.exec.exec_outcome import ExecOutcome
from swarm.worker.policy.approval_offers import RETRY_REASON
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, plan_sandbox
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.exec_command import MAY_BE_SANDBOX, ExecCommandTool
from swarm.worker.tools.interface.tool_context import ToolContext
from swarm.worker.tools.toolset import Toolset

FINAL = (done(text_message("assistant", "done")), END)
YES = Decided(outcome="approved", by="person")
NO = Decided(outcome="denied", by="person", text="exec command rejected by user")
MODEL = ModelInfo(slug="m", provider="p", wire="responses")
DENIED = ExecOutcome(
    wall_time_s=0.1, output="touch: /x: Permission denied", exit_code=1,
    original_token_count=7, denied=True,
)  # fmt: skip
FINE = ExecOutcome(wall_time_s=0.1, output="made it", exit_code=0, original_token_count=2)


class Commands:
    """Runs nothing: what would be denied in a sandbox is, and every request is kept."""

    def __init__(self, inside=FINE, outside=FINE):
        self._inside, self._outside = inside, outside
        self.requests, self.written = [], []

    def shell_argv(self, script, *, shell=None):
        return (shell or "/bin/bash", "-c", script)

    async def load_environment(self):
        pass

    def outside_environment(self):
        return {"PATH": "/usr/bin:/bin"}

    def plan(self, policy, cwd, extra=None):
        if isinstance(policy, DangerFullAccess):
            return SandboxPlan()
        return plan_sandbox(policy, cwd=cwd, tmp_dir=None, stack="bwrap")

    async def exec(self, request, on_output=None, lease=None):
        self.requests.append(request)
        unbound = isinstance(request.policy, DangerFullAccess)
        return self._outside if unbound else self._inside

    async def write(self, session_id, chars, yield_time_ms, on_output=None):
        self.written.append(chars)
        return FINE

    def is_open(self, session_id):
        return session_id == 1234


def spec_of(*, locked=False, rules=RuleSet(), granted=ExtraPermissions(), **limits):  # noqa: B008
    limits = {"sandbox": WorkspaceWrite(), "reviewer": "person"} | limits
    role = msgspec.structs.replace(FAKE_AGENT_SPEC.role, locked=locked)
    return msgspec.structs.replace(
        FAKE_AGENT_SPEC, limits=Limits(**limits), role=role, rules=rules, granted=granted
    )


def call(name="exec_command", call_id="c", **arguments):
    return FunctionCall(call_id=call_id, name=name, arguments=json.dumps(arguments))


async def play_through(spec, commands, calls, answers=()):
    """One turn whose responses hold one call each; returns questions, outputs, ends."""
    replies = [*((done(one), END) for one in calls), FINAL]
    names = ("exec_command", "write_stdin", "request_permissions")
    registry = Toolset(CurrentSpec(spec), commands).make_registry(None)
    tools = [registry.find(name) for name in names]
    async with open_agent_harness(spec, replies, tools=tools) as play:
        play.supervisor.events.clear()
        await play.supervisor.send_text("go")
        for number, reply in enumerate(answers, start=1):
            asked = await play.supervisor.wait_for(RequestSent, number)
            await play.supervisor.send_op(Answer(request_id=asked.request_id, reply=reply))
        assert isinstance(await play.supervisor.wait_turns(), TurnCompleted)
    questions = [one.request.approval for one in play.supervisor.events_of(RequestSent)]
    outputs = [one.output for one in play.supervisor.items("tool")]
    return questions, outputs, play.supervisor.events_of(CallEnded)


ESCALATED = call(
    cmd="make install", sandbox_permissions="require_escalated", justification="Install it?",
    prefix_rule=["make", "install"],
)  # fmt: skip


async def test_a_request_to_leave_shows_the_command_and_runs_outside_when_approved(autojump_clock):
    commands = Commands()
    questions, outputs, ends = await play_through(spec_of(), commands, [ESCALATED], [YES])
    action = questions[0].action
    assert (action.argv, action.cwd) == (("/bin/bash", "-c", "make install"), "/w")
    assert (action.script, action.sandboxed) == ("make install", False)
    assert (questions[0].cause, questions[0].reason) == ("escalation", "Install it?")
    assert questions[0].proposed_prefix == ("make", "install")
    assert [json.loads(key) for key in questions[0].keys] == [
        {
            "additional_permissions": None,
            "command": ["make", "install"],
            "cwd": "/w",
            "sandbox_permissions": "require_escalated",
            "tool": "exec_command",
            "tty": False,
        }
    ]
    assert isinstance(commands.requests[0].policy, DangerFullAccess)
    assert "made it" in outputs[0]
    assert ends[0].status == "completed"


async def test_a_rule_that_was_saved_is_told_before_the_next_request(autojump_clock):
    spec, always = spec_of(), msgspec.structs.replace(YES, scope="always")
    tool = ExecCommandTool(ToolContext(CurrentSpec(spec), Commands()))
    async with open_agent_harness(spec, [(done(ESCALATED), END), FINAL], tools=[tool]) as play:
        await play.supervisor.send_text("go")
        asked = await play.supervisor.wait_for(RequestSent)
        await play.supervisor.send_op(Answer(request_id=asked.request_id, reply=always))
        await play.supervisor.wait_turns()
    assert play.supervisor.events_of(CallBegan)[0].detail.sandbox == "none"
    note = 'Approved command prefix saved:\n- ["make", "install"]'
    assert play.gateway.inputs[1][-1] == text_message("developer", note)


async def test_single_rights_join_the_sandbox_of_that_command_alone(autojump_clock, tmp_path):
    commands = Commands()
    asking = call(
        cmd="make", sandbox_permissions="with_additional_permissions",
        additional_permissions={"network": {"enabled": True}, "file_system": {"write": ["../o"]}},
    )  # fmt: skip
    questions, _, _ = await play_through(spec_of(), commands, [asking, call(cmd="make")], [YES])
    wanted = ExtraPermissions(network=True, write=("/o",))
    assert (questions[0].cause, questions[0].action.extra) == ("permissions", wanted)
    assert questions[0].action.sandboxed
    assert questions[0].proposed_prefix == ()
    assert [one.extra for one in commands.requests] == [wanted, None]
    assert all(one.policy == WorkspaceWrite() for one in commands.requests)


async def test_what_was_granted_before_joins_every_command_without_a_question(autojump_clock):
    held = ExtraPermissions(network=True, write=("/o",))
    again = call(
        cmd="make", sandbox_permissions="with_additional_permissions",
        additional_permissions={"file_system": {"write": ["/o/deeper"]}},
    )  # fmt: skip
    commands = Commands()
    spec = spec_of(granted=held)
    questions, _, _ = await play_through(spec, commands, [call(cmd="make"), again])
    assert questions == []
    assert [one.extra for one in commands.requests] == [held, held]


@pytest.mark.parametrize(
    ("limits", "cause"),
    [
        ({"approval": "on-failure"}, ["retry"]),
        ({"granular": Granular()}, ["retry"]),
    ],
)
async def test_what_the_sandbox_stopped_may_run_again_outside(autojump_clock, limits, cause):
    commands = Commands(inside=DENIED)
    spec = spec_of(**limits)
    questions, outputs, ends = await play_through(spec, commands, [call(cmd="touch /x")], [YES])
    assert [one.cause for one in questions] == cause
    assert questions[0].reason == RETRY_REASON
    assert "Permission denied" in questions[0].retry_reason
    assert not questions[0].action.sandboxed
    assert [type(one.policy) for one in commands.requests] == [WorkspaceWrite, DangerFullAccess]
    assert outputs[0].index("touch: /x: Permission denied") < outputs[0].index("made it")
    assert (ends[0].status, ends[0].exit_code) == ("completed", 0)
    assert "Permission denied" in ends[0].output


async def test_a_refused_second_try_keeps_the_first_output(autojump_clock):
    commands = Commands(inside=DENIED)
    spec = spec_of(approval="on-failure")
    _, outputs, ends = await play_through(spec, commands, [call(cmd="touch /x")], [NO])
    assert len(commands.requests) == 1
    assert "touch: /x: Permission denied" in outputs[0]
    assert outputs[0].endswith("outside of the sandbox: exec command rejected by user")
    assert (ends[0].status, ends[0].exit_code) == ("failed", 1)


async def test_who_has_said_yes_to_the_command_is_not_asked_again(autojump_clock):
    commands = Commands(inside=DENIED)
    spec = spec_of(approval="untrusted")
    questions, outputs, _ = await play_through(spec, commands, [call(cmd="touch /x")], [YES])
    assert [one.cause for one in questions] == ["untrusted"]
    assert len(commands.requests) == 2
    assert "made it" in outputs[0]


@pytest.mark.parametrize(
    "spec",
    [
        spec_of(),
        spec_of(approval="never"),
        spec_of(granular=Granular(sandbox_approval=False)),
        spec_of(approval="on-failure", reviewer="nobody"),
        spec_of(approval="on-failure", locked=True),
    ],
)
async def test_elsewhere_a_denial_is_only_told(autojump_clock, spec):
    commands = Commands(inside=DENIED)
    questions, outputs, _ = await play_through(spec, commands, [call(cmd="touch /x")])
    assert questions == []
    assert len(commands.requests) == 1
    assert outputs[0].endswith(MAY_BE_SANDBOX)


async def test_a_session_outside_is_asked_about_before_each_line(autojump_clock):
    running = msgspec.structs.replace(FINE, exit_code=None, session_id=1234)
    commands = Commands(outside=running)
    write = call("write_stdin", session_id=1234, chars="rm x\n")
    poll = call("write_stdin", session_id=1234)
    questions, outputs, _ = await play_through(
        spec_of(), commands, [ESCALATED, poll, write], [YES, NO]
    )
    assert [one.cause for one in questions] == ["escalation", "escalation"]
    assert (questions[1].action.tool, questions[1].action.script) == ("write_stdin", "rm x\n")
    assert questions[1].keys == questions[0].keys
    assert commands.written == [""]
    assert outputs[2] == NO.text


async def test_a_session_inside_is_not_asked_about(autojump_clock):
    running = msgspec.structs.replace(FINE, exit_code=None, session_id=1234)
    commands = Commands(inside=running)
    write = call("write_stdin", session_id=1234, chars="ls\n")
    questions, _, _ = await play_through(spec_of(), commands, [call(cmd="bash"), write])
    assert questions == []
    assert commands.written == ["ls\n"]


MORE = {
    "sandbox_permissions": "with_additional_permissions",
    "additional_permissions": {"network": {"enabled": True}},
}
ASKS_ABOUT_PSQL = RuleSet(prefixes=(PrefixRule(pattern=(("psql",),), decision="prompt"),))


@pytest.mark.parametrize(
    ("spec", "started", "causes"),
    [
        (spec_of(), call(cmd="psql", **MORE), ["permissions", "permissions"]),
        (spec_of(approval="untrusted"), call(cmd="psql"), ["untrusted", "untrusted"]),
        (spec_of(rules=ASKS_ABOUT_PSQL), call(cmd="psql"), ["rule", "rule"]),
        (spec_of(), call(cmd="psql"), []),
    ],
)
async def test_what_a_session_that_was_approved_is_told_is_asked_about(
    autojump_clock, spec, started, causes
):
    running = msgspec.structs.replace(FINE, exit_code=None, session_id=1234)
    write = call("write_stdin", session_id=1234, chars="drop table a;\n")
    commands = Commands(inside=running)
    answers = [YES, NO][: len(causes)]
    questions, _, _ = await play_through(spec, commands, [started, write], answers)
    assert [one.cause for one in questions] == causes
    assert commands.written == ([] if causes else ["drop table a;\n"])
    assert len({one.keys for one in questions}) <= 1  # a yes for the session is for both


FORBIDS_PUSH = RuleSet(prefixes=(PrefixRule(pattern=(("git",), ("push",)), decision="forbidden"),))


@pytest.mark.parametrize(
    ("cmd", "chars", "rules", "cause"),
    [
        ("bash", "rm -rf a\n", RuleSet(), "dangerous"),
        ("env X=1 bash -i", "cd b; rm -f a\n", RuleSet(), "dangerous"),
        ("bash", "psql\n", ASKS_ABOUT_PSQL, "rule"),
        ("bash", "git push\n", FORBIDS_PUSH, None),
    ],
)
async def test_what_a_shell_is_told_is_judged_as_a_command(
    autojump_clock, cmd, chars, rules, cause
):
    running = msgspec.structs.replace(FINE, exit_code=None, session_id=1234)
    write = call("write_stdin", session_id=1234, chars=chars)
    commands = Commands(inside=running)
    questions, outputs, _ = await play_through(
        spec_of(rules=rules), commands, [call(cmd=cmd), write], [NO] if cause else []
    )
    assert [(one.cause, one.keys) for one in questions] == ([] if cause is None else [(cause, ())])
    assert commands.written == []
    assert (NO.text if cause else "policy forbids commands starting with") in outputs[1]


async def test_words_for_what_is_no_shell_are_nobodys_to_judge(autojump_clock):
    running = msgspec.structs.replace(FINE, exit_code=None, session_id=1234)
    write = call("write_stdin", session_id=1234, chars="rm -rf a\n")
    commands = Commands(inside=running)
    questions, _, _ = await play_through(spec_of(), commands, [call(cmd="cat"), write])
    assert questions == []


async def test_a_locked_role_never_leaves_and_is_told_why(autojump_clock):
    rules = RuleSet(prefixes=(PrefixRule(pattern=(("make",),)),))
    commands = Commands()
    spec = spec_of(locked=True, rules=rules, granted=ExtraPermissions(network=True))
    questions, outputs, _ = await play_through(spec, commands, [ESCALATED, call(cmd="make")])
    assert questions == []
    assert "locked in its sandbox" in outputs[0]
    assert [(type(one.policy), one.extra) for one in commands.requests] == [(WorkspaceWrite, None)]


async def test_a_rule_for_every_command_needs_no_question(autojump_clock):
    rules = RuleSet(prefixes=(PrefixRule(pattern=(("make",), ("install",))),))
    commands = Commands()
    questions, _, _ = await play_through(spec_of(rules=rules), commands, [call(cmd="make install")])
    assert questions == []
    assert isinstance(commands.requests[0].policy, DangerFullAccess)


async def test_rules_that_cannot_be_read_are_asked_about_by_name(autojump_clock):
    spec = spec_of(rules=RuleSet(broken="/r/default.rules: line 3: no such name"))
    commands = Commands()
    calls = [call(cmd="ls"), call(cmd="make")]
    questions, outputs, _ = await play_through(spec, commands, calls, [NO])
    assert [one.cause for one in questions] == ["rule"]
    assert "/r/default.rules: line 3" in questions[0].reason
    assert len(commands.requests) == 1
    assert outputs[1] == NO.text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"sandbox_permissions": "with_additional_permissions"},
            "missing `additional_permissions`; provide at least one of `network` or `file_system` "
            "when using `with_additional_permissions`",
        ),
        (
            {
                "sandbox_permissions": "with_additional_permissions",
                "additional_permissions": {"network": {"enabled": False}, "file_system": {}},
            },
            "`additional_permissions` must include at least one requested permission in `network` "
            "or `file_system`",
        ),
        (
            {"additional_permissions": {"network": {"enabled": True}}},
            "`additional_permissions` requires `sandbox_permissions` set to "
            "`with_additional_permissions`",
        ),
    ],
)
async def test_a_request_that_does_not_fit_is_told_in_words(autojump_clock, arguments, text):
    commands = Commands()
    _, outputs, _ = await play_through(spec_of(), commands, [call(cmd="ls", **arguments)])
    assert outputs == [text]
    assert commands.requests == []


@pytest.mark.parametrize(
    ("spec", "offered"),
    [
        (spec_of(), True),
        (spec_of(approval="untrusted"), True),
        (spec_of(reviewer="guardian"), True),
        (spec_of(reviewer="guardian", approval="untrusted"), False),
        (spec_of(reviewer="nobody"), False),
        (spec_of(approval="never"), False),
        (spec_of(approval="on-failure"), False),
        (spec_of(locked=True), False),
        (spec_of(sandbox=DangerFullAccess()), False),
        (spec_of(granular=Granular()), True),
        (spec_of(granular=Granular(sandbox_approval=False)), False),
    ],
)
def test_models_are_offered_to_ask_exactly_where_somebody_could_answer(spec, offered):
    told = ExecCommandTool(ToolContext(CurrentSpec(spec), Commands())).describe(MODEL)
    properties = json.loads(told.parameters)["properties"]
    assert list(properties) == sorted(properties)
    options = {"sandbox_permissions", "additional_permissions", "justification", "prefix_rule"}
    assert options & set(properties) == (options if offered else set())
    if offered:
        assert properties["sandbox_permissions"]["enum"] == [
            "use_default", "require_escalated", "with_additional_permissions",
        ]  # fmt: skip


ALLOWS_TOOL = RuleSet(prefixes=(PrefixRule(pattern=(("tool",),)),))


class Planted(Commands):
    """On PATH, the project's folder of programs comes first."""

    def __init__(self, folder, **more):
        super().__init__(**more)
        self._path = f"{folder}/.venv/bin:{folder.parent}/bin:/usr/bin:/bin"

    def outside_environment(self):
        return {"PATH": self._path, "HOME": "/home/u"}


def tool_at(path):
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def spec_in(folder, **more):
    folder.mkdir(exist_ok=True)
    return msgspec.structs.replace(spec_of(**more), cwd=str(folder))


async def test_a_rule_takes_no_program_outside_that_agents_could_exchange(autojump_clock, tmp_path):
    """Nor one whose interpreter, or the program of another command in the script, could be."""
    project = tmp_path / "project"
    planted = tool_at(project / ".venv/bin/tool")
    commands = Planted(project)
    calls = [call(cmd="tool x"), call(cmd="git status && tool x")]
    questions, outputs, _ = await play_through(spec_in(project, rules=ALLOWS_TOOL), commands, calls)
    assert questions == []
    assert all(isinstance(one.policy, WorkspaceWrite) for one in commands.requests)
    assert (
        f"it ran inside, since a program of it could be exchanged by agents: {planted}"
        in (outputs[0])
    )


async def test_a_held_program_leaves_by_a_rule_with_held_search_paths(autojump_clock, tmp_path):
    project = tmp_path / "project"
    tool_at(tmp_path / "bin/tool")
    commands = Planted(project)
    await play_through(spec_in(project, rules=ALLOWS_TOOL), commands, [call(cmd="tool x")])
    assert isinstance(commands.requests[0].policy, DangerFullAccess)
    assert commands.requests[0].held_from.root_of(f"{project}/.venv/bin")


async def test_no_lasting_yes_covers_a_program_that_agents_could_exchange(autojump_clock, tmp_path):
    project = tmp_path / "project"
    planted = tool_at(project / ".venv/bin/tool")
    commands = Planted(project)
    asked = call(
        cmd="tool x", sandbox_permissions="require_escalated", justification="?",
        prefix_rule=["tool"],
    )  # fmt: skip
    questions, _, _ = await play_through(
        spec_in(project, rules=ALLOWS_TOOL), commands, [asked], [YES]
    )
    assert questions[0].cause == "escalation"
    assert str(planted) in questions[0].action.unheld
    assert (questions[0].keys, questions[0].proposed_prefix) == ((), ())
    assert isinstance(commands.requests[0].policy, DangerFullAccess)
    assert commands.requests[0].held_from is None  # it runs as it was shown


async def test_a_home_folder_that_agents_write_keeps_commands_inside(autojump_clock, tmp_path):
    home = tmp_path / "project"
    tool_at(tmp_path / "bin/tool")

    class AtHome(Planted):
        def outside_environment(self):
            return {**super().outside_environment(), "HOME": str(home)}

    commands = AtHome(home)
    await play_through(spec_in(home, rules=ALLOWS_TOOL), commands, [call(cmd="tool x")])
    assert isinstance(commands.requests[0].policy, WorkspaceWrite)


async def test_a_login_shell_of_its_own_leaves_by_no_rule(autojump_clock, tmp_path):
    project = tmp_path / "project"
    tool_at(tmp_path / "bin/tool")
    commands = Planted(project)
    asked = call(cmd="tool x", login=True)
    await play_through(spec_in(project, rules=ALLOWS_TOOL), commands, [asked])
    assert isinstance(commands.requests[0].policy, WorkspaceWrite)
