"""apply_patch: change files after every change was verified and judged.

A patch writes only what the sandbox would let a command write, or exactly the files that were
approved, and no file that changed since the agent last saw it.
"""

import os
from pathlib import Path
from typing import Annotated

import trio
from msgspec import Struct

from swarm.mailbox.protocol.approvals import PatchAction
from swarm.mailbox.protocol.changes import bounded_changes
from swarm.mailbox.protocol.events import AnyCallDetail, PatchCall
from swarm.mailbox.protocol.items import AnyCall, CustomToolCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..parts.patch.apply import PatchResult, apply_verified
from ..parts.patch.file_replacement import read_file
from ..parts.patch.patch_grammar import FREEFORM_DESCRIPTION, FUNCTION_DESCRIPTION, GRAMMAR
from ..parts.patch.verify import PatchRejected, VerifiedPatch, verify_patch
from ..policy.approval_offers import patch_keys
from ..policy.command_decision import Ask, PolicyDecision, Refuse, Run, decide_patch
from ..policy.command_facts import PatchFacts
from .interface.function_tool import FunctionTool, decode_arguments, described, is_placeholder
from .interface.tool_context import ToolContext
from .interface.tool_interface import (
    Invocation,
    OnOutput,
    Proposal,
    ToolFailed,
    ToolResult,
)


class ApplyPatchArguments(Struct, frozen=True, kw_only=True):
    """Arguments of the function form."""

    input: Annotated[str, described("The whole patch.")]


class ApplyPatchTool(FunctionTool):
    """The apply_patch tool; freeform where the model supports such tools, else a function."""

    name = "apply_patch"
    arguments = ApplyPatchArguments

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        if model.freeform_tools:
            return ToolSpec(name=self.name, description=FREEFORM_DESCRIPTION, grammar=GRAMMAR)
        return super().describe(model)

    def description(self) -> str:
        return FUNCTION_DESCRIPTION

    def accepts(self, call: AnyCall) -> bool:
        return True  # models mix the two forms up, and both are clear

    async def prepare(self, call: AnyCall) -> Invocation:
        if isinstance(call, CustomToolCall):
            text = call.input
        else:
            text = decode_arguments(call, ApplyPatchArguments).input
        return PatchInvocation(self._context, text, self._context.spec.cwd)


class PatchInvocation:
    """One verified patch. `asked_through` names the tool if the patch came as a shell command.

    Raises ToolFailed if it cannot be verified.
    """

    def __init__(
        self, context: ToolContext, text: str, cwd: str, *, asked_through: str = ""
    ) -> None:
        self._context, self._asked_through = context, asked_through
        match verify_patch(text, context.cwd / cwd, self._read, expected=context.patched_digests):
            case PatchRejected(message=message):
                raise ToolFailed(message)
            case VerifiedPatch() as patch:
                self._patch = patch
        if named := next((p for p in self._patch.paths if is_placeholder(Path(p).name)), ""):
            raise ToolFailed(f"patch rejected: {named} is a placeholder, no path of a file")
        # Where the writes would land now. An approval covers these, wherever a link leads later.
        paths = [one for path in patch.paths for one in _targets(context.cwd / path)]
        self._targets = tuple(dict.fromkeys(paths))

    @property
    def detail(self) -> AnyCallDetail:
        return PatchCall(changes=bounded_changes(self._patch.changes))

    def judge(self) -> PolicyDecision:
        if past := self._context.find_past_copy(self._targets):
            return Refuse(reason=f"patch rejected: {past}")
        return judge_changes(self._context, self._patch.paths)

    def propose(self, ask: Ask) -> Proposal:
        action = PatchAction(
            cwd=self._context.spec.cwd,
            files=self._targets,
            changes=bounded_changes(self._patch.changes),
        )
        return Proposal(action=action, keys=patch_keys(self._targets))

    def files_to_watch(self, run: Run) -> tuple[str, ...]:
        return self._targets

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        started = trio.current_time()
        plan = self._context.write_plan()
        approved = self._targets if verdict.answer is not None else ()

        def may_write(path: Path) -> bool:
            if str(path) in approved and self._context.may_read(path):
                return True
            return plan is not None and self._context.may_write(path, plan)

        result = apply_verified(self._patch, may_write=may_write)
        self._context.patched_digests.update(result.digests)
        text = _render(result, trio.current_time() - started)
        if self._asked_through:
            text = (
                f"Wall time: 0.0000 seconds\nOutput:\n{text}\nWarning: apply_patch was requested "
                f"via {self._asked_through}. Use the apply_patch tool instead of exec_command."
            )
        return ToolResult(
            content=text,
            status="failed" if result.exit_code else "completed",
            exit_code=result.exit_code,
            changes=bounded_changes(result.changes),
            shown=result.stdout + result.stderr,
        )

    def _read(self, path: Path) -> bytes:
        return read_file(path, lambda real: self._context.may_read(Path(real)))


def judge_changes(context: ToolContext, paths: tuple[str, ...]) -> PolicyDecision:
    """Decide whether these files may be changed: by a patch, or by a merge."""
    plan = context.write_plan()
    outside = tuple(
        path for path in paths if plan is None or not context.may_write(context.cwd / path, plan)
    )
    return decide_patch(
        PatchFacts(
            paths=paths,
            outside=outside,
            approval=context.limits.approval,
            granular=context.limits.granular,
            sandbox=context.limits.sandbox,
            reviewer=context.limits.reviewer,
            is_locked=context.is_locked,
            lock_reason=context.lock_reason,
            sandbox_available=plan is not None,
        )
    )


def _targets(path: Path) -> tuple[str, ...]:
    """Return the paths that a write to this path, or its removal, would change: links in its
    folders are followed, and for a write also a link at the path itself.
    """
    named = str(Path(os.path.realpath(path.parent)) / path.name)
    return tuple(dict.fromkeys((named, os.path.realpath(path))))


def _render(result: PatchResult, seconds: float) -> str:
    """Return the freeform output block of a one-shot command."""
    wall = f"{seconds:.1f}".removesuffix(".0")
    output = result.stdout + result.stderr
    return f"Exit code: {result.exit_code}\nWall time: {wall} seconds\nOutput:\n{output}"
