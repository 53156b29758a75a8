"""The labelled actions: read from YAML, checked, turned into what a reviewer is asked.

Rule guarded: a case is what the real path would see: the same items, the same entries, the same
action struct. `{cwd}` in any text is the case's own folder, where its `files` lie.
"""

from pathlib import Path
from typing import Literal

import msgspec
import yaml

from swarm.mailbox.protocol.approvals import (
    AnyAction,
    ApprovalRequest,
    Cause,
    CommandAction,
    ExtraPermissions,
    LossPreview,
    NetworkAction,
    PatchAction,
    PermissionsAction,
    SandboxPermissions,
)
from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.items import (
    AnyItem,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    text_message,
)
from swarm.supervisor.parts.guardian.review_prompt import ReviewCase
from swarm.supervisor.parts.guardian.review_transcript import (
    Source,
    TranscriptEntry,
    TranscriptReader,
)

DATA = Path(__file__).parent / "data"
Group = Literal["benign", "risky", "destructive", "exfiltrating", "injected"]
GROUPS: tuple[Group, ...] = ("benign", "risky", "destructive", "exfiltrating", "injected")


class Patch(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    diff: str
    kind: Literal["add", "delete", "update"] = "update"


class Network(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    port: int = 443
    protocol: Literal["http", "https", "socks5_tcp", "socks5_udp"] = "https"
    trigger: str = ""


class ProposedAction(msgspec.Struct, forbid_unknown_fields=True):
    """The action: exactly one of `run`, `patch`, `network`, `permissions`."""

    run: str = ""
    patch: Patch | None = None
    network: Network | None = None
    permissions: ExtraPermissions | None = None
    cause: Cause = "escalation"
    asks: SandboxPermissions = "use_default"
    outside: bool = False  # it would run without any sandbox
    reason: str = ""
    retry: str = ""
    preview: str = ""


class LabelledCase(msgspec.Struct, forbid_unknown_fields=True):
    """One case as it is written down.

    `said`: one mapping a line, of one key: `user`, `agent`, `call` (a shell command), `result` (of
    the call before), or the path of another agent whose message it is.
    """

    id: str
    expect: Literal["allow", "deny"]
    said: list[dict[str, str]]
    do: ProposedAction
    files: dict[str, str] = {}
    why: str = ""  # the label's reason, for people


class GroupedCase(msgspec.Struct):
    group: Group
    case: LabelledCase


def load_cases(folder: Path = DATA) -> list[GroupedCase]:
    """Every case, in the order of groups and files. Raises ValueError with file and reason."""
    found: list[GroupedCase] = []
    for group in GROUPS:
        path = folder / f"{group}.yaml"
        try:
            raw = yaml.safe_load(path.read_text(encoding="utf-8"))
            cases = msgspec.convert(raw, list[LabelledCase])
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            raise ValueError(f"{path}: {error}") from error
        found += [GroupedCase(group, case) for case in cases]
    names = [one.case.id for one in found]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two cases have one id: {', '.join(doubled)}")
    return found


def write_case_files(case: LabelledCase, folder: Path) -> None:
    """Write the case's files into its folder."""
    folder.mkdir(parents=True)
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def make_case(case: LabelledCase, folder: Path) -> ReviewCase:
    """What the reviewer is asked."""
    cwd = str(folder)
    reader = TranscriptReader()
    entries: list[TranscriptEntry] = []
    for item, source in _items(case, cwd):
        if (entry := reader.read(item, source)) is not None:
            entries.append(entry)
    return ReviewCase(
        agent="/root", cwd=cwd, request=make_request(case, cwd), entries=tuple(entries)
    )


def _items(case: LabelledCase, cwd: str) -> list[tuple[AnyItem, Source]]:
    items: list[tuple[AnyItem, Source]] = []
    for number, line in enumerate(case.said):
        ((key, raw),) = line.items()
        text = raw.replace("{cwd}", cwd)
        match key:
            case "user":
                items.append((text_message("user", text), "user"))
            case "agent":
                items.append((text_message("assistant", text), "model"))
            case "call":
                arguments = msgspec.json.encode({"cmd": text}).decode()
                call = FunctionCall(call_id=f"c{number}", name="exec_command", arguments=arguments)
                items.append((call, "model"))
            case "result":
                items.append((FunctionCallOutput(call_id=f"c{number - 1}", output=text), "tool"))
            case path if path.startswith("/root"):
                letter = Message(role="assistant", content=(OutputText(text=text),), author=path)
                items.append((letter, "mail"))
            case _:
                raise ValueError(f"{case.id}: nobody is called {key!r}")
    return items


def make_request(case: LabelledCase, cwd: str) -> ApprovalRequest:
    """The approval request of a case. Raises ValueError if it names no single action."""
    do = case.do
    return ApprovalRequest(
        action=_action(case, cwd),
        cause=do.cause,
        turn_id=case.id,
        call_id=case.id,
        reason=do.reason,
        retry_reason=do.retry,
        preview=LossPreview(summary=do.preview) if do.preview else None,
    )


def _action(case: LabelledCase, cwd: str) -> AnyAction:
    do = case.do
    named = [one for one in (do.run, do.patch, do.network, do.permissions) if one]
    if len(named) != 1:
        raise ValueError(f"{case.id}: `do` must name exactly one action")
    if do.patch is not None:
        path = do.patch.path.replace("{cwd}", cwd)
        change = FileChange(path=path, kind=do.patch.kind, unified_diff=do.patch.diff)
        return PatchAction(cwd=cwd, files=(path,), changes=(change,))
    if do.network is not None:
        request = do.network
        return NetworkAction(
            host=request.host, port=request.port, protocol=request.protocol, trigger=request.trigger
        )
    if do.permissions is not None:
        return PermissionsAction(permissions=do.permissions)
    return CommandAction(
        argv=("bash", "-lc", do.run.replace("{cwd}", cwd)),
        cwd=cwd,
        permissions="require_escalated" if do.outside else do.asks,
        sandboxed=not do.outside,
    )
