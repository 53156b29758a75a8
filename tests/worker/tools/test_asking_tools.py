"""The tools that ask by themselves (questions, permissions), and patches that need a yes."""

import json
from typing import Any

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.protocol.approvals import (
    ExtraPermissions,
    PatchAction,
    PermissionsAction,
    QuestionsAction,
)
from swarm.mailbox.protocol.items import CustomToolCall, FunctionCall
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import CopyMount
from swarm.mailbox.protocol.values.limits import Granular, Limits, ReadOnly, WorkspaceWrite
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.policy.command_decision import ROLE_LOCKED, Ask, Refuse, Run
from swarm.worker.sandbox.sandbox_plan import plan_sandbox
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.apply_patch import ApplyPatchTool
from swarm.worker.tools.interface.tool_context import ToolContext
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.request_permissions import RequestPermissionsTool
from swarm.worker.tools.request_user_input import RequestUserInputTool
from swarm.worker.tools.toolset import Toolset

MODEL = ModelInfo(slug="m", provider="p", wire="responses")
QUESTION = {
    "id": "db", "header": "Database", "question": "Which one?",
    "options": [{"label": "sqlite", "description": "a file"}, {"label": "pg", "description": "x"}],
}  # fmt: skip


class Commands:
    """What a site asks of its commands; it runs none."""

    def shell_argv(self, script, *, shell=None):
        return (shell or "/bin/bash", "-c", script)

    def plan(self, policy, cwd, extra=None):
        roots = () if extra is None else extra.write
        return plan_sandbox(policy, cwd=cwd, tmp_dir=None, extra_roots=roots, stack="bwrap")


def site_of(cwd="/w", *, depth=0, locked=False, hidden=(), copies=(), **limits):
    limits = {"sandbox": WorkspaceWrite(), "reviewer": "person"} | limits
    role = msgspec.structs.replace(FAKE_AGENT_SPEC.role, locked=locked)
    spec = with_fields(
        FAKE_AGENT_SPEC, limits=Limits(**limits), role=role, cwd=str(cwd), depth=depth,
        hidden_paths=hidden,
        mounts=tuple(CopyMount(path=str(one), base="", upper="", work="") for one in copies),
    )  # fmt: skip
    return ToolContext(CurrentSpec(spec), Commands())


def call(name, **arguments):
    return FunctionCall(call_id="c", name=name, arguments=json.dumps(arguments))


async def run(invocation, verdict):
    return await invocation.run(verdict, lambda text: None)


# --- request_user_input -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "offered"),
    [
        (site_of(), True),
        (site_of(depth=1), False),
        (site_of(reviewer="guardian"), False),
        (site_of(reviewer="nobody"), False),
        (site_of(approval="never"), False),
    ],
)
def test_questions_are_offered_to_the_root_where_a_person_may_be(site, offered):
    assert (RequestUserInputTool(site).describe(MODEL) is not None) == offered


async def test_a_question_is_put_and_its_answer_is_the_result():
    invocation: Any = await RequestUserInputTool(site_of()).prepare(
        call("request_user_input", questions=[QUESTION])
    )
    ask = invocation.judge()
    assert isinstance(ask, Ask)
    assert ask.cause == "question"
    action = invocation.propose(ask).action
    assert isinstance(action, QuestionsAction)
    assert [one.label for one in action.questions[0].options] == ["sqlite", "pg"]
    answers = {"db": ("pg", "version 16"), "other": ("x",)}
    done = await run(invocation, Run(answer=Decided(outcome="approved", answers=answers)))
    assert done.content == '{"answers":{"db":{"answers":["pg","version 16"]}}}'


@pytest.mark.parametrize("answer", [None, Decided(outcome="approved")])
async def test_no_answer_is_said_to_be_none(answer):
    invocation: Any = await RequestUserInputTool(site_of()).prepare(
        call("request_user_input", questions=[QUESTION])
    )
    with pytest.raises(ToolFailed, match="was cancelled before receiving a response"):
        await run(invocation, Run(answer=answer))


@pytest.mark.parametrize(
    ("site", "questions", "text"),
    [
        (site_of(depth=1), [QUESTION], "request_user_input can only be used by the root thread"),
        (
            site_of(),
            [QUESTION | {"options": []}],
            "options must not be empty in any question",
        ),
        (site_of(), [], "questions must hold one to 3 questions"),
        (site_of(), [QUESTION, QUESTION], "id must differ from question to question"),
    ],
)
async def test_questions_that_cannot_be_put_are_told_in_words(site, questions, text):
    with pytest.raises(ToolFailed, match=text):
        await RequestUserInputTool(site).prepare(call("request_user_input", questions=questions))


# --- request_permissions ----------------------------------------------------------------------


def request(**files):
    return call("request_permissions", permissions={"file_system": files}, reason="to build")


async def test_granted_is_what_was_asked_and_given_for_as_long_as_was_said(tmp_path):
    site = site_of(tmp_path)
    (tmp_path / "link").symlink_to("/srv")
    invocation: Any = await RequestPermissionsTool(site).prepare(
        request(write=["link", "/o"], read=["/r/x"])
    )
    ask = invocation.judge()
    assert isinstance(ask, Ask)
    assert (ask.cause, ask.reason) == ("permissions", "to build")
    wanted = ExtraPermissions(write=("/srv", "/o"), read=("/r/x",))
    assert invocation.propose(ask).action == PermissionsAction(permissions=wanted)
    given = ExtraPermissions(network=True, write=("/o/in", "/else"), read=("/r",))
    answer = Decided(outcome="approved", scope="session", permissions=given)
    done = await run(invocation, Run(answer=answer))
    assert json.loads(done.content) == {
        "permissions": {"file_system": {"read": ["/r/x"], "write": ["/o/in"]}},
        "scope": "session",
    }
    site.granted.enter_turn("another")
    assert site.granted.now == ExtraPermissions(read=("/r/x",), write=("/o/in",))


async def test_granted_once_holds_for_the_calls_of_the_turn():
    belt = Toolset(CurrentSpec(site_of().spec), Commands())
    registry = belt.make_registry(None)
    registry.enter_turn("t1")
    given = ExtraPermissions(write=("/o",))
    for write, asks in [("/o", True), ("/o/deeper", False)]:
        invocation = await registry.find("request_permissions").prepare(request(write=[write]))
        assert isinstance(invocation.judge(), Ask) == asks
        answer = Decided(outcome="approved", permissions=given) if asks else None
        done = await run(invocation, Run(answer=answer))
        assert json.loads(done.content)["permissions"] == {"file_system": {"write": [write]}}
        registry.enter_turn("t1")
    registry.enter_turn("t2")
    invocation = await registry.find("request_permissions").prepare(request(write=["/o"]))
    assert isinstance(invocation.judge(), Ask)


@pytest.mark.parametrize(
    "site", [site_of(approval="never"), site_of(granular=Granular(request_permissions=False))]
)
async def test_where_nobody_would_be_asked_the_answer_is_nothing(site):
    tool = RequestPermissionsTool(site)
    assert tool.describe(MODEL) is None
    invocation: Any = await tool.prepare(request(write=["/o"]))
    assert invocation.judge() == Run()
    done = await run(invocation, Run())
    assert json.loads(done.content) == {"permissions": {}, "scope": "turn"}


async def test_a_locked_role_is_given_nothing():
    tool = RequestPermissionsTool(site_of(locked=True))
    assert tool.describe(MODEL) is None
    assert (await tool.prepare(request(write=["/o"]))).judge() == Refuse(reason=ROLE_LOCKED)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "permissions must name at least one right"),
        ({"write": [""]}, "not a path"),
        ({"read": ["a\0b"]}, "not a path"),
        ({"read": ["x"] * 65}, "at most 64 paths"),
        ({"read": ["/state/run/sock"]}, "belongs to the run itself"),
    ],
)
async def test_what_cannot_be_given_cannot_be_asked_for(asked, text):
    tool = RequestPermissionsTool(site_of(hidden=("/state/run",)))
    with pytest.raises(ToolFailed, match=text):
        await tool.prepare(request(**asked))


async def test_an_agent_in_a_copy_cannot_ask_to_write_beside_it():
    tool = RequestPermissionsTool(site_of(copies=["/w"]))
    with pytest.raises(ToolFailed, match="/o is not in this agent's copy of the project"):
        await tool.prepare(request(write=["/w/a", "/o"]))
    assert isinstance((await tool.prepare(request(write=["/w/a"], read=["/o"]))).judge(), Ask)


# --- patches ----------------------------------------------------------------------------------


def patch_of(path):
    lines = ("*** Begin Patch", f"*** Add File: {path}", "+one", "*** End Patch")
    return CustomToolCall(call_id="c", name="apply_patch", input="\n".join(lines))


async def test_a_patch_outside_writes_what_was_approved_and_nothing_else(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "way").symlink_to(outside)
    invocation: Any = await ApplyPatchTool(site_of(inside)).prepare(patch_of("way/new"))
    ask = invocation.judge()
    assert isinstance(ask, Ask)
    proposal = invocation.propose(ask)
    assert isinstance(proposal.action, PatchAction)
    assert proposal.action.files == (f"{outside}/new",)
    assert proposal.keys == (f'{{"path":"{outside}/new","tool":"apply_patch"}}',)
    answer = Decided(outcome="approved")
    (inside / "way").unlink()
    (inside / "way").symlink_to(tmp_path)  # leads elsewhere by the time of the answer
    refused = await run(invocation, msgspec.structs.replace(ask.then, answer=answer))
    assert refused.status == "failed"
    assert not (tmp_path / "new").exists()
    (inside / "way").unlink()
    (inside / "way").symlink_to(outside)
    done = await run(invocation, msgspec.structs.replace(ask.then, answer=answer))
    assert done.status == "completed"
    assert (outside / "new").read_text() == "one\n"


async def test_a_granted_path_needs_no_yes_for_a_patch(tmp_path):
    site = site_of(tmp_path / "in", sandbox=ReadOnly())
    tool = ApplyPatchTool(site)
    assert isinstance((await tool.prepare(patch_of(tmp_path / "a"))).judge(), Ask)
    site.granted.add(ExtraPermissions(write=(str(tmp_path),)), for_turn=False)
    assert (await tool.prepare(patch_of(tmp_path / "a"))).judge() == Run()
    invocation: Any = await tool.prepare(patch_of(tmp_path / ".git" / "config"))
    assert isinstance(invocation.judge(), Ask)


async def test_a_patch_where_the_run_lives_is_not_even_asked_about(tmp_path):
    tool = ApplyPatchTool(site_of(tmp_path / "in", hidden=(str(tmp_path),)))
    with pytest.raises(ToolFailed, match="Permission denied"):
        await tool.prepare(patch_of(tmp_path / "sock"))


async def test_a_patch_beside_an_agents_copy_is_refused_unasked(tmp_path):
    site = site_of(tmp_path / "in", copies=[tmp_path / "in"], sandbox=ReadOnly())
    refused = (await ApplyPatchTool(site).prepare(patch_of(tmp_path / "a"))).judge()
    assert isinstance(refused, Refuse)
    assert "is not in this agent's copy of the project" in refused.reason
    assert isinstance((await ApplyPatchTool(site).prepare(patch_of("a"))).judge(), Ask)
