"""What `swarm models probe` asks: a word, five calls of growing difficulty, a patch, an answer that
keeps to a schema. The tools are an agent's own, with their descriptions and schemas.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from swarm.mailbox.base.call_arguments import decode_call_arguments
from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Message,
    text_of,
)
from swarm.mailbox.protocol.sampling import ToolSpec

from ..gateway.fit.hard_history import hard_history
from ..gateway.model_probe import WAYS, ProbeTask
from ..parts.patch.patch_grammar import FUNCTION_DESCRIPTION
from ..parts.patch.verify import PatchRejected, verify_patch
from ..tools.apply_patch import ApplyPatchArguments
from ..tools.exec_command import ExecCommandArguments
from ..tools.interface.function_tool import description_of, encode_schema
from ..tools.list_dir import ListDirArguments
from ..tools.update_plan import UpdatePlanArguments

SHOWN_CHARS = 80
_WORD_SCHEMA = (
    b'{"type":"object","properties":{"word":{"type":"string"}},"required":["word"],'
    b'"additionalProperties":false}'
)
_FILE = "def double(number):\n    return number + number\n\n\nprint(double(4))\n"
_WANTED = _FILE.replace("number + number", "2 * number")
_QUOTED = """grep -n "it's \\"here\\"" 'my notes.txt'"""
_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


class _Word(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    word: str


def _spec(name: str, arguments: type[msgspec.Struct]) -> ToolSpec:
    return ToolSpec(
        name=name, description=description_of(name), parameters=encode_schema(arguments)
    )


def probe_tasks() -> tuple[ProbeTask, ...]:
    """The requests, in order. A model of the embedded provider or with constrained
    calls is offered the same tools; what it gets of them is what an agent's request gets.
    """
    return (
        ProbeTask("text", "Answer with the one word: ready", (), _find_text_fault),
        *_call_tasks(),
        ProbeTask(
            "patch",
            "The file double.py in the working directory is:\n\n"
            f"{_FILE}\nChange `number + number` to `2 * number` with apply_patch.",
            (_patch_spec(),),
            _find_patch_fault,
        ),
        ProbeTask(
            "schema",
            'Answer with a JSON object whose key `word` holds the text "ready".',
            (),
            _find_schema_fault,
            output_schema=_WORD_SCHEMA,
        ),
        ways_task(),
    )


def _find_nothing(_: Sequence[AnyItem]) -> str | None:
    """Any answer will do."""
    return None


def ways_task() -> ProbeTask:
    """A history with all that servers refuse: what this one takes is learned."""
    tools = (_spec("exec_command", ExecCommandArguments), _patch_spec())
    history = hard_history("exec_command")
    return ProbeTask(WAYS, "The first words.", tools, _find_nothing, before=history)


def _patch_spec() -> ToolSpec:
    return ToolSpec(
        name="apply_patch",
        description=FUNCTION_DESCRIPTION,
        parameters=encode_schema(ApplyPatchArguments),
    )


def _call_tasks() -> tuple[ProbeTask, ...]:
    """Five calls, each harder than the one before."""
    command = _spec("exec_command", ExecCommandArguments)
    listing = _spec("list_dir", ListDirArguments)
    tools = (command, listing, _spec("update_plan", UpdatePlanArguments), _patch_spec())
    return (
        ProbeTask("tool", "Run this command: echo ready", (command,), _command_fault("echo ready")),
        ProbeTask(
            "tool_quotes",
            f"Run this command exactly as it stands, with all its quotes: {_QUOTED}",
            (command,),
            _command_fault(_QUOTED),
        ),
        ProbeTask(
            "tool_choice",
            "List the folder /srv/data, 3 levels deep. Use the tool that is made for it.",
            tools,
            _find_listing_fault,
        ),
        ProbeTask(
            "tool_nested",
            "Write down a plan of two steps with update_plan: `read the code` is completed, "
            "`fix the test` is in progress.",
            tools,
            _find_plan_fault,
        ),
        ProbeTask(
            "tool_follow_up",
            "Find out which file in /srv/data is the largest, then print its first line with head.",
            tools,
            _find_follow_up_fault,
            _listed_before(),
        ),
    )


def _listed_before() -> tuple[AnyItem, ...]:
    """A call that was made, and its output: the next call needs a name out of it."""
    arguments = '{"cmd":"ls -lS /srv/data"}'
    output = (
        "total 18\n-rw-r--r-- 1 u u 16044 May  2 10:00 harvest-1987.csv\n"
        "-rw-r--r-- 1 u u   310 May  2 10:00 readme.md"
    )
    return (
        FunctionCall(call_id="call_0", name="exec_command", arguments=arguments),
        FunctionCallOutput(call_id="call_0", output=output),
    )


# --- what is wrong with an answer ----------------------------------------------------------------


def _said(items: Sequence[AnyItem]) -> str:
    return " ".join(text_of(item.content) for item in items if isinstance(item, Message)).strip()


def _shown(items: Sequence[AnyItem]) -> str:
    said = _said(items)
    return f"it said {said[:SHOWN_CHARS]!r}" if said else "it said nothing"


def _find_text_fault(items: Sequence[AnyItem]) -> str | None:
    return None if _said(items) else "it said nothing"


def _find_schema_fault(items: Sequence[AnyItem]) -> str | None:
    fits = _decoded(_said(items), _Word) is not None
    return None if fits else f"the answer does not fit the schema; {_shown(items)}"


def _decoded(text: str, kind: type[_Arguments]) -> _Arguments | None:
    try:
        return msgspec.json.decode(text.encode(), type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _call_of(items: Sequence[AnyItem], name: str, kind: type[_Arguments]) -> _Arguments | str:
    """The arguments of the first call, or what is wrong with it."""
    call = next((item for item in items if isinstance(item, FunctionCall | CustomToolCall)), None)
    if call is None:
        return f"no call came; {_shown(items)}"
    if call.name != name:
        return f"it called {call.name[:40]!r}, and {name} was meant"
    text = call.arguments if isinstance(call, FunctionCall) else call.input
    try:
        return decode_call_arguments(text, kind)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return f"the arguments do not fit their schema: {text[:SHOWN_CHARS]!r}"


def _command_fault(wanted: str) -> Callable[[Sequence[AnyItem]], str | None]:
    def find(items: Sequence[AnyItem]) -> str | None:
        found = _call_of(items, "exec_command", ExecCommandArguments)
        if isinstance(found, str):
            return found
        if found.cmd.strip() == wanted:
            return None
        return f"the command came as {found.cmd[:SHOWN_CHARS]!r}"

    return find


def _find_listing_fault(items: Sequence[AnyItem]) -> str | None:
    found = _call_of(items, "list_dir", ListDirArguments)
    if isinstance(found, str):
        return found
    if (found.dir_path.rstrip("/"), found.depth) == ("/srv/data", 3):
        return None
    return f"it asked for {found.dir_path[:SHOWN_CHARS]!r}, {found.depth} deep"


def _find_plan_fault(items: Sequence[AnyItem]) -> str | None:
    found = _call_of(items, "update_plan", UpdatePlanArguments)
    if isinstance(found, str):
        return found
    states = [step.status for step in found.plan]
    return None if states == ["completed", "in_progress"] else f"the states came as {states[:5]}"


def _find_follow_up_fault(items: Sequence[AnyItem]) -> str | None:
    found = _call_of(items, "exec_command", ExecCommandArguments)
    if isinstance(found, str):
        return found
    fits = "head" in found.cmd and "harvest-1987.csv" in found.cmd
    return None if fits else f"the command came as {found.cmd[:SHOWN_CHARS]!r}"


def _find_patch_fault(items: Sequence[AnyItem]) -> str | None:
    found = _call_of(items, "apply_patch", ApplyPatchArguments)
    if isinstance(found, str):
        return found
    folder = Path("/project")

    def read(path: Path) -> bytes:
        if path != folder / "double.py":
            raise FileNotFoundError(path)
        return _FILE.encode()

    patch = verify_patch(found.input, folder, read)
    if isinstance(patch, PatchRejected):
        return f"the patch cannot be applied: {' '.join(patch.message.split())[:SHOWN_CHARS]}"
    contents = [step.content for step in patch.steps]
    return None if contents == [_WANTED.encode()] else "the patch changes something else"
