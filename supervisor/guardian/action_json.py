"""Renders the requested action as the JSON that a reviewer judges. Pure.

The JSON is pretty-printed with sorted keys, and every string is cut to its limit. The requesting
agent chooses values, never keys. A model's text stays inside a JSON string, so that it cannot start
a line.
"""

from typing import assert_never

import msgspec

from swarm.mailbox.protocol.approvals import (
    AnyAction,
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    LossPreview,
    NetworkAction,
    PatchAction,
    PermissionsAction,
    QuestionsAction,
)
from swarm.mailbox.protocol.changes import FileChange

from .review_transcript import cut_middle

STRING_TOKENS = 16_000
Json = str | int | bool | None | list["Json"] | dict[str, "Json"]


class NotReviewable(Exception):
    """Only a person can answer this; the text says so."""


def render_action(request: ApprovalRequest) -> str:
    """The JSON text of the requested action. Raises NotReviewable."""
    return render_json(action_object(request))


def render_preview(preview: LossPreview) -> str:
    """The result of a dry run as JSON text."""
    return render_json(
        {
            "summary": preview.summary,
            "files": preview.count,
            "bytes": preview.size_bytes,
            "first_paths": [*preview.paths],
            "a_copy_is_kept": preview.kept,
        }
    )


def render_json(value: Json) -> str:
    """Pretty-printed, all keys sorted, strings cut, no character that could start a line."""
    data = msgspec.json.encode(_cut_strings(value), order="sorted")
    text = msgspec.json.format(data, indent=2).decode()
    return text.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def action_object(request: ApprovalRequest) -> dict[str, Json]:
    """The object for each kind of action. Raises NotReviewable."""
    action: AnyAction = request.action
    match action:
        case CommandAction():
            return _command(action, request)
        case PatchAction(cwd=cwd, files=files, changes=changes):
            return {
                "tool": "apply_patch",
                "cwd": cwd,
                "files": [*files],
                "patch": "\n".join(map(_change, changes)),
            }
        case NetworkAction():
            wish: dict[str, Json] = {
                "tool": "network_access",
                "target": f"{action.protocol}://{action.host}:{action.port}",
                "host": action.host,
                "protocol": action.protocol,
                "port": action.port,
            }
            return {**wish, "trigger": action.trigger} if action.trigger else wish
        case PermissionsAction(permissions=permissions):
            asked: dict[str, Json] = {
                "tool": "request_permissions",
                "turn_id": request.turn_id,
                "permissions": _permissions(permissions),
            }
            return {**asked, "reason": request.reason} if request.reason else asked
        case QuestionsAction():
            raise NotReviewable("a question to the user can only be answered by the user")
        case _:
            assert_never(action)


def _command(action: CommandAction, request: ApprovalRequest) -> dict[str, Json]:
    told: dict[str, Json] = {
        "tool": action.tool,
        "command": [*action.argv],
        "cwd": action.cwd,
        "sandbox_permissions": action.permissions,
        "sandboxed": action.sandboxed,
    }
    if action.tool == "exec_command":
        told["tty"] = action.tty
    if action.extra is not None:
        told["additional_permissions"] = _permissions(action.extra)
    if request.reason:
        told["justification"] = request.reason
    if action.commits_in:
        told["writes_repository"] = action.commits_in
    if action.tool == "write_stdin":
        told["chars"] = action.script  # always: the typed characters are what is judged
    elif action.script and not any(action.script in word for word in action.argv):
        told["script"] = action.script
    return told


def _permissions(extra: ExtraPermissions) -> dict[str, Json]:
    return {"network": extra.network, "read": [*extra.read], "write": [*extra.write]}


def _change(change: FileChange) -> str:
    head = f"{change.kind} {change.path}"
    if change.move_path:
        head += f" -> {change.move_path}"
    return f"{head}\n{change.unified_diff}"


def _cut_strings(value: Json) -> Json:
    match value:
        case str():
            return cut_middle(value, limit_tokens=STRING_TOKENS)
        case list():
            return [_cut_strings(one) for one in value]
        case dict():
            return {key: _cut_strings(one) for key, one in value.items()}
        case _:
            return value
