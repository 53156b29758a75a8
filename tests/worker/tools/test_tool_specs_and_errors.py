"""The tools as models see them, and what a model reads when it uses them wrongly."""

import json

import msgspec
import pytest

from swarm.mailbox.protocol.events import PatchCall
from swarm.mailbox.protocol.items import CustomToolCall, FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, encode_sample_op
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.worker.agent.context.context_blocks import base_instructions
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.base.truncate import truncate_output
from swarm.worker.exec.exec_outcome import ExecOutcome
from swarm.worker.policy.command_decision import Refuse, Run
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, SandboxUnavailable, plan_sandbox
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool
from swarm.worker.tools.apply_patch import ApplyPatchTool
from swarm.worker.tools.exec_command import MAY_BE_SANDBOX, ExecCommandTool, exec_result
from swarm.worker.tools.interface.function_tool import decode_arguments
from swarm.worker.tools.interface.tool_context import ToolContext
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.orchestrator import ToolRegistry
from swarm.worker.tools.toolset import Toolset
from swarm.worker.tools.write_stdin import WriteStdinArguments

MODEL = ModelInfo(slug="m", provider="p", wire="responses", freeform_tools=True)


class Commands:
    """What a site asks of its commands; it runs none."""

    def __init__(self, tmp_dir="", *, stack="bwrap"):
        self._tmp_dir, self._stack = tmp_dir, stack

    def shell_argv(self, script, *, shell=None):
        return (shell or "/bin/bash", "-c", script)

    def plan(self, policy, cwd, extra=None):
        if isinstance(policy, DangerFullAccess):
            return SandboxPlan()
        if self._stack == "none":
            raise SandboxUnavailable("none here")
        return plan_sandbox(policy, cwd=cwd, tmp_dir=None, stack=self._stack)


WRITING = msgspec.structs.replace(FAKE_AGENT_SPEC, limits=Limits(sandbox=WorkspaceWrite()))


def make_site(cwd, sandbox, *, stack="bwrap", approval="on-request"):
    limits = Limits(sandbox=sandbox, approval=approval)
    spec = msgspec.structs.replace(FAKE_AGENT_SPEC, cwd=str(cwd), limits=limits)
    return ToolContext(CurrentSpec(spec), Commands(stack=stack))


def patch_of(*lines):
    return CustomToolCall(
        call_id="c", name="apply_patch",
        input="\n".join(("*** Begin Patch", *lines, "*** End Patch")),
    )  # fmt: skip


def test_the_list_of_tools_is_small_ordered_and_always_the_same():
    registry = Toolset(CurrentSpec(WRITING), Commands()).make_registry(None)
    specs = registry.specs(MODEL)
    assert [spec.name for spec in specs] == [
        "exec_command", "write_stdin", "update_plan", "apply_patch", "list_dir", "view_image",
    ]  # fmt: skip
    request = SampleRequest(
        request_id=1, turn_id="t", tools=specs, instructions=base_instructions(MODEL)
    )
    assert len(encode_sample_op(request)) < 12_000
    again = Toolset(CurrentSpec(WRITING), Commands()).make_registry(None).specs(MODEL)
    assert again == specs
    for spec in specs:
        schema = json.loads(spec.parameters)
        assert list(schema.get("properties", {})) == sorted(schema.get("properties", {}))


def test_models_are_told_only_of_what_they_can_use():
    registry = Toolset(CurrentSpec(WRITING), Commands()).make_registry(None)
    blind = msgspec.structs.replace(MODEL, image_input=False, freeform_tools=False)
    specs = {spec.name: spec for spec in registry.specs(blind)}
    assert "view_image" not in specs
    assert specs["apply_patch"].grammar is None
    assert json.loads(specs["apply_patch"].parameters)["required"] == ["input"]
    assert registry.specs(msgspec.structs.replace(MODEL, can_call_tools=False)) == ()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            FunctionCall(call_id="c", name="no", arguments=""),
            "unsupported call: no; the tools are t",
        ),
        (
            CustomToolCall(call_id="c", name="no", input=""),
            "unsupported custom tool call: no; the tools are t",
        ),
        (
            CustomToolCall(call_id="c", name="t", input=""),
            "tool t invoked with incompatible payload",
        ),
    ],
)
def test_a_call_that_cannot_be_routed_gets_a_text(call, text):
    with pytest.raises(ToolFailed, match=f"^{text}$"):
        ToolRegistry((FakeTool("t"),)).tool_for(call)


@pytest.mark.parametrize("arguments", ["", "{", "[]", '{"session_id": "x"}', "\ud800", "[" * 5000])
def test_arguments_that_cannot_be_read_get_a_text(arguments):
    call = FunctionCall(call_id="c", name="write_stdin", arguments=arguments)
    with pytest.raises(ToolFailed, match=r"^failed to parse function arguments: "):
        decode_arguments(call, WriteStdinArguments)


def test_numbers_are_read_as_small_models_write_them():
    text = '{"session_id": "1000", "yield_time_ms": 250.0, "unknown": 1}'
    call = FunctionCall(call_id="c", name="write_stdin", arguments=text)
    read = decode_arguments(call, WriteStdinArguments)
    assert (read.session_id, read.yield_time_ms) == (1000, 250)


def run_of(**changes):
    done = ExecOutcome(wall_time_s=0.5, output="hi\n", original_token_count=1, exit_code=0)
    return msgspec.structs.replace(done, **changes)


@pytest.mark.parametrize(
    ("done", "status", "lines"),
    [
        (run_of(), "completed", ["Process exited with code 0", "Original token count: 1"]),
        (run_of(exit_code=3), "failed", ["Process exited with code 3", "Original token count: 1"]),
        (
            run_of(exit_code=None, session_id=1234),
            "completed",
            ["Process running with session ID 1234", "Original token count: 1"],
        ),
    ],
)
def test_a_command_reads_line_for_line_as_specified(done, status, lines):
    outcome = exec_result(done, limit_tokens=None)
    text = "\n".join(["Wall time: 0.5000 seconds", *lines, "Output:", "hi\n"])
    assert (outcome.text, outcome.status) == (text, status)


def test_long_output_is_cut_and_a_denial_is_explained():
    outcome = exec_result(run_of(output="a\n" * 100, exit_code=1, denied=True), limit_tokens=2)
    content = truncate_output(outcome.content, limit_tokens=10_000)
    assert "Total output lines: 100\n\na\na\n…48 tokens truncated…a\na\n" in content
    assert content.endswith(MAY_BE_SANDBOX)
    assert outcome.shown == "a\n" * 100


async def test_a_patch_in_the_workspace_runs_and_one_outside_is_refused(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    site = make_site(tmp_path, WorkspaceWrite())
    for path, allowed in [
        ("a/b.txt", True), (".git/config", False),
        (".GIT/config", False), (".Git", False), (".gIt./config", False), (".git /x", False),
        (".git::$INDEX_ALLOCATION/config", False), ("git~1/config", False), (".SWARM/x", False),
        (".\u0434it/config", True), ("sub/.GIT/config", True), ("gitter/x", True),
        (".g\u200bit/config", False), (".Claude/settings.json", False),
        ("/etc/x", False), ("link/x", False),
        ("../x", False),
    ]:  # fmt: skip
        invocation = await ApplyPatchTool(site).prepare(patch_of(f"*** Add File: {path}", "+one"))
        assert isinstance(invocation.judge(), Run) == allowed, path


@pytest.mark.parametrize(("sandbox", "stack"), [(ReadOnly(), "bwrap"), (WorkspaceWrite(), "none")])
async def test_a_patch_that_no_sandbox_would_allow_never_runs_unasked(tmp_path, sandbox, stack):
    site = make_site(tmp_path, sandbox, stack=stack, approval="never")
    invocation = await ApplyPatchTool(site).prepare(patch_of("*** Add File: a", "+one"))
    assert isinstance(invocation.judge(), Refuse)
    outcome = await invocation.run(
        Run(), lambda text: None
    )  # even if it were run, nothing is written
    assert outcome.status == "failed"
    assert not [*tmp_path.iterdir()]


async def test_a_file_changed_by_another_hand_is_a_conflict(tmp_path):
    site = make_site(tmp_path, WorkspaceWrite())
    tool = ApplyPatchTool(site)
    invocation = await tool.prepare(patch_of("*** Add File: a.txt", "+one"))
    assert (await invocation.run(Run(), lambda text: None)).status == "completed"
    (tmp_path / "a.txt").write_text("other\n")
    with pytest.raises(ToolFailed, match="has changed since it was last seen"):
        await tool.prepare(patch_of("*** Update File: a.txt", "@@", "-other", "+mine"))


async def test_a_patch_written_as_a_command_is_a_patch(tmp_path):
    site = make_site(tmp_path, WorkspaceWrite())
    patch = patch_of("*** Add File: a.txt", "+one").input
    arguments = json.dumps({"cmd": f"cd sub && apply_patch <<'EOF'\n{patch}\nEOF"})
    call = FunctionCall(call_id="c", name="exec_command", arguments=arguments)
    invocation = await ExecCommandTool(site).prepare(call)
    assert isinstance(invocation.detail, PatchCall)
    assert invocation.detail.changes[0].path == str(tmp_path / "sub/a.txt")
    bare = FunctionCall(call_id="c", name="exec_command", arguments=json.dumps({"cmd": patch}))
    with pytest.raises(ToolFailed, match="patch detected without explicit call"):
        await ExecCommandTool(site).prepare(bare)


async def test_diffs_for_people_are_bounded(tmp_path):
    (tmp_path / "big.txt").write_text("x\n" * 200_000)
    site = make_site(tmp_path, WorkspaceWrite())
    invocation = await ApplyPatchTool(site).prepare(patch_of("*** Delete File: big.txt"))
    assert len(invocation.detail.changes[0].unified_diff) < 101_000
