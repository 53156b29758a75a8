"""A tool call as an editor shows it: title, kind, files, diffs. Pure."""

import re
import shlex

from acp.schema import FileEditToolCallContent, ToolCallLocation, ToolKind

from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.events import (
    AnyCallDetail,
    CallBegan,
    CommandCall,
    McpCall,
    OtherCall,
    PatchCall,
    PlanCall,
    StdinCall,
)
from swarm.mailbox.protocol.parsed_command import ListFiles, ReadFile, Search

from ...base.safe_text import clean_line
from ..console.diff_lines import diff_lines

_TITLE_CHARS = 200
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")


def call_title(tool: str, detail: AnyCallDetail) -> str:
    """One line for a call."""
    match detail:
        case CommandCall(argv=argv, script=script):
            return one_line(script or shlex.join(argv))
        case StdinCall(session_id=session_id, chars=chars):
            return one_line(
                f"session {session_id}: {chars!r}" if chars else f"session {session_id}"
            )
        case PatchCall(changes=changes):
            return one_line("Edit " + ", ".join(one.path.rpartition("/")[2] for one in changes))
        case OtherCall(argument=argument):
            return one_line(f"{tool} {argument}")
        case McpCall(server=server, tool=name):
            return one_line(f"{server}: {name}")
        case PlanCall():
            return "Plan"


def call_kind(detail: AnyCallDetail) -> ToolKind:
    match detail:
        case PatchCall(changes=changes):
            kinds = {one.kind for one in changes}
            return "delete" if kinds == {"delete"} else "edit"
        case CommandCall(parsed_cmd=parsed) if parsed:
            if all(isinstance(one, ReadFile) for one in parsed):
                return "read"
            reads = (ReadFile, ListFiles, Search)
            return "search" if all(isinstance(one, reads) for one in parsed) else "execute"
        case CommandCall() | StdinCall():
            return "execute"
        case _:
            return "other"


def call_locations(detail: AnyCallDetail, cwd: str) -> list[ToolCallLocation] | None:
    """The files that a call reads or changes, absolute."""
    found: list[ToolCallLocation] = []
    match detail:
        case PatchCall(changes=changes):
            found = [
                ToolCallLocation(path=one.move_path or one.path, line=_first_line(one))
                for one in changes
            ]
        case CommandCall(parsed_cmd=parsed):
            paths = [one.path for one in parsed if isinstance(one, ReadFile)]
            found = [
                ToolCallLocation(path=path if path.startswith("/") else f"{cwd}/{path}")
                for path in paths
            ]
        case _:
            pass
    return found or None


def _first_line(change: FileChange) -> int | None:
    """The first line of the first hunk, from 1; None if the diff does not say."""
    hunk = _HUNK.search(change.unified_diff)
    return max(int(hunk[1]), 1) if hunk else None


def change_diffs(changes: tuple[FileChange, ...]) -> list[FileEditToolCallContent]:
    """The changed parts of each file, with the lines around them."""
    return [
        FileEditToolCallContent(
            type="diff",
            path=one.move_path or one.path,
            old_text=None if one.kind == "add" else _side(one.unified_diff, "-"),
            new_text=_side(one.unified_diff, "+"),
        )
        for one in changes
    ]


def _side(diff: str, sign: str) -> str:
    """One side of a diff's hunks, with the lines around them."""
    kept: list[str] = []
    for kind, line in diff_lines(diff):
        if kind == "hunk":
            kept += ["…"] if kept else []
        elif kind in ("context", "removed" if sign == "-" else "added"):
            kept.append(line[1:])
    return "\n".join(kept) + ("\n" if kept else "")


def call_input(body: CallBegan) -> dict[str, str]:
    match body.detail:
        case CommandCall(script=script, cwd=cwd):
            return {"command": script, "cwd": cwd}
        case McpCall(arguments=arguments):
            return {"arguments": arguments}
        case OtherCall(argument=argument) if argument:
            return {"argument": argument}
        case _:
            return {}


def one_line(text: str) -> str:
    return clean_line(text, limit=_TITLE_CHARS)


def fenced_text(text: str) -> str:
    """A text as a block of Markdown that it cannot leave."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.rstrip()}\n{fence}"
