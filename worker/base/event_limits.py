"""Events and items that are too large for any mailbox, cut to what fits. Pure.

Rule guarded: no agent ends because of what it has to say. A call and a turn keep their identity,
texts lose their middle, and of what cannot be cut a warning says that it was left out.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from swarm.mailbox.delivery.envelope import MAX_MESSAGE_BYTES
from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.events import (
    AnyCallDetail,
    AnyEvent,
    CallBegan,
    CallEnded,
    CommandCall,
    HookRan,
    McpCall,
    OtherCall,
    PatchCall,
    ProviderFallback,
    StdinCall,
    TurnCompleted,
    TurnFailed,
    Warned,
    encode_event,
)
from swarm.mailbox.protocol.items import (
    AnyItem,
    ContentPart,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    Message,
    text_message,
)

from .truncate import truncate_middle

# An event adds ids to its item. What the gateway lets through is smaller: `answer.MAX_ITEM_BYTES`.
MOST_ITEM_BYTES = MAX_MESSAGE_BYTES - (1 << 20)
_KEPT_BYTES = 1 << 20  # of all texts of one that is cut


def fit_event(event: AnyEvent) -> bytes:
    """The encoding of an event, of at most `MAX_MESSAGE_BYTES`; of a smaller event where it must
    be.
    """
    body = encode_event(event)
    if len(body) <= MAX_MESSAGE_BYTES:
        return body
    fitting = (one for one in map(encode_event, _smaller(event)) if len(one) <= MAX_MESSAGE_BYTES)
    said = f"{type(event).__name__} of {len(body):,} bytes"
    left_out = Warned(message=f"the agent's {said} was too large to be told and was left out")
    return next(fitting, None) or encode_event(left_out)


def _smaller(event: AnyEvent) -> Iterator[AnyEvent]:
    """The same with less, and with ever less."""
    match event:
        case CallBegan(detail=detail):
            yield replace(event, detail=_cut_detail(detail))
            bare = replace(event, detail=OtherCall(argument="too long to be shown"))
            yield bare
            if bare.watch is not None:
                yield replace(bare, watch=replace(bare.watch, paths=()))
        case CallEnded(changes=changes, output=output):
            output = _cut(output)
            yield replace(event, changes=_cut_changes(changes), output=output)
            yield replace(event, changes=(), output=output)
        case TurnCompleted(last_message=str() as message):
            yield replace(event, last_message=_cut(message))
        case (
            TurnFailed(message=message)
            | Warned(message=message)
            | ProviderFallback(message=message)
        ):
            yield replace(event, message=_cut(message))
        case HookRan(text=text):
            yield replace(event, text=_cut(text))
        case _:
            return


def _cut_detail(detail: AnyCallDetail) -> AnyCallDetail:
    match detail:
        case CommandCall(script=script):
            script = _cut(script)
            return replace(detail, script=script, argv=(script,))
        case StdinCall(chars=chars):
            return replace(detail, chars=_cut(chars))
        case PatchCall(changes=changes):
            return PatchCall(changes=_cut_changes(changes))
        case McpCall(arguments=arguments):
            return replace(detail, arguments=_cut(arguments))
        case OtherCall(argument=argument):
            return OtherCall(argument=_cut(argument))
        case _:
            return OtherCall(argument="too long to be shown")


def _cut_changes(changes: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
    share = _KEPT_BYTES // max(1, len(changes))
    return tuple(replace(one, unified_diff=_cut(one.unified_diff, share)) for one in changes)


def fit_item(item: AnyItem, *, size_bytes: int) -> AnyItem:
    """What joins the history for an item over `MAX_ITEM_BYTES`.

    Args:
        item: Any.
        size_bytes: Of its encoding; for the words of one that cannot be cut.
    """
    match item:
        case Message(content=content):
            return replace(item, content=_cut_parts(content))
        case FunctionCall():
            return replace(item, arguments="{}")
        case CustomToolCall(input=text):
            return replace(item, input=_cut(text))
        case FunctionCallOutput(output=output) | CustomToolCallOutput(output=output):
            kept = _cut(output) if isinstance(output, str) else _cut_parts(output)
            return replace(item, output=kept)
        case _:  # what only a provider can read, or reasoning: nothing of it can be cut
            note = f"An item of {size_bytes:,} bytes was too large and is left out here."
            return text_message("developer", note)


def _cut_parts(parts: tuple[ContentPart, ...]) -> tuple[ContentPart, ...]:
    share = _KEPT_BYTES // max(1, len(parts))
    kept = (one for one in parts if not isinstance(one, InputImage) or len(one.image_url) <= share)
    return tuple(
        one if isinstance(one, InputImage) else replace(one, text=_cut(one.text, share))
        for one in kept
    )


def _cut(text: str, budget_bytes: int = _KEPT_BYTES) -> str:
    return truncate_middle(text, budget_bytes=budget_bytes, unit="chars")
