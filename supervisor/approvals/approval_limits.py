"""Limits on how much of an approval request is kept, journaled and shown. Pure.

Shortened text keeps its head and its tail and says how much is missing between them. Where that is
part of what an approval covers, nobody is asked: no yes counts for what could not be seen.
"""

from msgspec.structs import replace

from swarm.mailbox.protocol.approvals import (
    AnyAction,
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    LossPreview,
    McpToolAction,
    NetworkAction,
    PatchAction,
    PermissionsAction,
    PersonQuestion,
    QuestionOption,
    QuestionsAction,
)
from swarm.mailbox.protocol.changes import SHOWN_DIFF_CHARS, shorten_change
from swarm.mailbox.protocol.elicitation import ElicitationAction, FormChoice, FormField
from swarm.mailbox.protocol.server_sampling import SamplingAction

MAX_OPEN = 64  # requests of one agent at once
MAX_OPEN_IN_RUN = 256  # the run's snapshot holds them all and is limited in size
_COMMAND = 64 << 10  # characters of a script or of a whole argv
_DIFF = 128 << 10  # characters of all diffs together
_REASON = 4_000
_WORDS = 400
_MAX_FILES = 500
_MAX_PATHS = 64
_MAX_QUESTIONS, _MAX_OPTIONS = 3, 12
_MAX_FIELDS, _MAX_CHOICES, _URL = 30, 100, 2_000
_MAX_TURNS = 40  # of a conversation that a server wants continued


def cut_text(text: str, limit: int) -> str:
    """At most `limit` characters, plus a mark that says how many are missing in the middle."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    mark = f"… [{len(text) - limit} more characters] …"
    return f"{text[: limit - tail]}{mark}{text[len(text) - tail :]}"


def why_not_shown(request: ApprovalRequest) -> str:
    """What of an action is too long to be shown to who must approve it; "" if all of it fits.

    Texts about it (reasons, descriptions, schemas) may be cut: an approval does not cover them.
    """
    action = request.action
    match action:
        case CommandAction(script=script, argv=argv):
            size = max(len(script), sum(len(word) + 1 for word in argv))
            what = f"a command of {size:,} characters, over the {_COMMAND:,}"
        case McpToolAction(arguments=arguments):
            what = f"arguments of {len(arguments):,} characters, over the {_COMMAND:,}"
        case PatchAction(changes=changes):
            size = sum(len(one.unified_diff) + one.left_out for one in changes)
            what = f"a change of {len(action.files):,} files and {size:,} characters of diff, over "
            what += f"the {_MAX_FILES} files, {SHOWN_DIFF_CHARS:,} characters of one, {_DIFF:,}"
            if any(one.left_out for one in changes):
                return _unshowable(what)
        case QuestionsAction() | ElicitationAction():
            return ""  # a person's own words are the answer
        case _:
            what = "more texts, or longer ones,"
    return "" if _covered(_cut_action(action)) == _covered(action) else _unshowable(what)


def _unshowable(what: str) -> str:
    return (
        f"it is {what} that can be shown whole to who would have to approve it; ask for it in "
        "smaller parts"
    )


def _covered(action: AnyAction) -> AnyAction:
    """The action without the texts that only speak about it."""
    match action:
        case McpToolAction():
            return replace(action, description="", schema="", changed=())
        case NetworkAction():
            return replace(action, trigger="")
        case _:
            return action


def cut_request(request: ApprovalRequest) -> ApprovalRequest:
    """The request as it is journaled and shown. Grants are made from the uncut request."""
    return replace(
        request,
        action=_cut_action(request.action),
        reason=cut_text(request.reason, _REASON),
        retry_reason=cut_text(request.retry_reason, _REASON),
        keys=tuple(cut_text(key, _COMMAND) for key in request.keys[:_MAX_FILES]),
        proposed_prefix=_whole_prefix(request.proposed_prefix),
        preview=None if request.preview is None else _cut_preview(request.preview),
    )


def _cut_action(action: AnyAction) -> AnyAction:
    match action:
        case CommandAction():
            return replace(
                action,
                argv=_cut_words(action.argv),
                script=cut_text(action.script, _COMMAND),
                extra=None if action.extra is None else _cut_permissions(action.extra),
            )
        case PatchAction():
            return _cut_patch(action)
        case NetworkAction():
            return replace(
                action,
                host=cut_text(action.host, _WORDS),
                trigger=cut_text(action.trigger, _COMMAND),
            )
        case McpToolAction():
            return replace(
                action,
                tool=cut_text(action.tool, _WORDS),
                arguments=cut_text(action.arguments, _COMMAND),
                description=cut_text(action.description, _REASON),
                schema=cut_text(action.schema, _REASON),
                changed=tuple(cut_text(line, _WORDS) for line in action.changed[:12]),
            )
        case PermissionsAction(permissions=permissions):
            return replace(action, permissions=_cut_permissions(permissions))
        case QuestionsAction(questions=questions):
            kept = tuple(_cut_question(one) for one in questions[:_MAX_QUESTIONS])
            return replace(action, questions=kept)
        case ElicitationAction():
            return _cut_elicitation(action)
        case SamplingAction():
            return cut_sampling(action, _COMMAND)


def _whole_prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a rule; () if they are too many to be shown, for then no rule is offered."""
    fits = len(words) <= 64 and all(len(word) <= _WORDS for word in words)
    return words if fits else ()


def _cut_words(argv: tuple[str, ...]) -> tuple[str, ...]:
    kept: list[str] = []
    room = _COMMAND
    for word in argv:
        if room <= 0:
            kept.append(f"… [{len(argv) - len(kept)} more words]")
            break
        kept.append(cut_text(word, room))
        room -= len(word) + 1
    return tuple(kept)


def _cut_patch(action: PatchAction) -> PatchAction:
    room = _DIFF
    changes = list(action.changes[:_MAX_FILES])
    for index, change in enumerate(changes):
        changes[index] = shorten_change(change, max(room, 0))
        room -= len(change.unified_diff)
    files = action.files[:_MAX_FILES]
    if len(action.files) > len(files):
        files = (*files, f"… [{len(action.files) - len(files)} more files]")
    return replace(action, files=files, changes=tuple(changes))


def _cut_permissions(permissions: ExtraPermissions) -> ExtraPermissions:
    return replace(
        permissions, read=_cut_paths(permissions.read), write=_cut_paths(permissions.write)
    )


def _cut_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    if len(paths) <= _MAX_PATHS:
        return paths
    return (*paths[:_MAX_PATHS], f"… [{len(paths) - _MAX_PATHS} more paths]")


def _cut_question(question: PersonQuestion) -> PersonQuestion:
    options = tuple(
        QuestionOption(
            label=cut_text(one.label, _WORDS), description=cut_text(one.description, _WORDS)
        )
        for one in question.options[:_MAX_OPTIONS]
    )
    return replace(
        question,
        header=cut_text(question.header, 40),
        question=cut_text(question.question, _REASON),
        options=options,
    )


def _cut_elicitation(action: ElicitationAction) -> ElicitationAction:
    """The hub has bounded it already; this holds for whatever it sends."""
    return replace(
        action,
        message=cut_text(action.message, _REASON),
        url=cut_text(action.url, _URL),
        tool=cut_text(action.tool, _WORDS),
        fields=tuple(_cut_field(one) for one in action.fields[:_MAX_FIELDS]),
    )


def cut_sampling(action: SamplingAction, limit: int) -> SamplingAction:
    """At most so many characters of all texts, and a mark at each that is cut."""
    system = cut_text(action.system, limit)
    room, turns = max(limit - len(action.system), 0), list(action.turns[:_MAX_TURNS])
    for index, one in enumerate(turns):
        turns[index] = replace(one, text=cut_text(one.text, room))
        room = max(room - len(one.text), 0)
    return replace(action, system=system, turns=tuple(turns), tool=cut_text(action.tool, _WORDS))


def _cut_field(field: FormField) -> FormField:
    choices = tuple(
        FormChoice(value=cut_text(one.value, _WORDS), title=cut_text(one.title, _WORDS))
        for one in field.choices[:_MAX_CHOICES]
    )
    return replace(
        field,
        title=cut_text(field.title, _WORDS),
        description=cut_text(field.description, _WORDS),
        choices=choices,
    )


def _cut_preview(preview: LossPreview) -> LossPreview:
    return replace(
        preview,
        summary=cut_text(preview.summary, _WORDS),
        paths=tuple(cut_text(path, _WORDS) for path in preview.paths[:20]),
    )
