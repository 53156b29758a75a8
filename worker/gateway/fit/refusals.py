"""Read a refusal: which rule of the server's a request broke, and the dialect that keeps it. Pure.

Each reading changes the dialect by at least one fact, so that no request is made twice in the same
way. A refusal that names nothing known is met once with the plainest form of a conversation.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import msgspec

from swarm.mailbox.protocol.sampling import ToolSpec

from .dialect import Dialect, EmptyContent

JsonObject = dict[str, object]
_decode = msgspec.json.Decoder(JsonObject).decode
# What a request cannot do without.
_NEEDED = frozenset(
    {"model", "messages", "input", "stream", "tools", "instructions", "system", "max_tokens"}
)
# Fields of a message, a call or an item that are no provider's own.
_STANDARD = frozenset(
    {
        "role", "content", "tool_calls", "tool_call_id", "id", "type", "function", "name",
        "call_id", "arguments", "output", "status", "summary", "encrypted_content",
        "input", "tool_use_id", "is_error", "signature", "thinking", "data", "text", "source",
    }
)  # fmt: skip


class Refusal(NamedTuple):
    """What a server refused."""

    said: str  # the texts of its error
    wire: str
    body: JsonObject  # the request
    tools: tuple[ToolSpec, ...]


class Lesson(NamedTuple):
    """What a refusal teaches: the dialect from now on, and what to say of it."""

    dialect: Dialect
    notice: str


_Rule = Callable[[Refusal, Dialect], Lesson | None]


def read_refusal(
    said: str, *, wire: str, sent: bytes, tools: tuple[ToolSpec, ...], dialect: Dialect
) -> Lesson | None:
    """What this refusal teaches; None if it names nothing that could be sent otherwise."""
    try:
        body = _decode(sent)
    except (msgspec.DecodeError, RecursionError):
        return None
    refusal = Refusal(said, wire, body, tools)
    lessons = (rule(refusal, dialect) for rule in _RULES)
    return next((one for one in lessons if one is not None and one.dialect != dialect), None)


def plainest(dialect: Dialect) -> Dialect:
    """The form of a conversation that the most servers take, for a refusal in unknown words."""
    return msgspec.structs.replace(
        dialect,
        alternates=True,
        user_after_tool=False,
        later_developer=False,
        short_ids=True,
        empty_content="text",
        returns_fields=False,
        custom_tools=False,
    )


def _says(text: str, *patterns: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE | re.DOTALL) for pattern in patterns)


# --- roles ---------------------------------------------------------------------------------------


def _no_system(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if not _says(
        refusal.said,
        r"system (?:role|messages?|prompts?) (?:is |are )?(?:not |un)(?:supported|allowed)",
        r"(?:not|n't) support (?:a |the )?['\"`]?system",
        r"only (?:the )?user(?:, tool,?)? and assistant",
        r"developer instruction is not enabled",
    ):
        return None
    learned = msgspec.structs.replace(dialect, system=False, alternates=True, later_developer=False)
    return Lesson(learned, "takes no system message: its text is a user's from now on")


def _developer(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if not _says(refusal.said, r"developer"):
        return None
    learned = msgspec.structs.replace(dialect, developer=False, later_developer=False)
    return Lesson(learned, "does not know the role `developer`: it is `system` or `user`")


def _later_system(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if not _says(
        refusal.said,
        r"system.{0,60}(?:beginning|begin |first|start|only one|position|middle)",
        r"(?:unexpected|invalid|unsupported) role.{0,12}system",
    ):
        return None
    learned = msgspec.structs.replace(dialect, later_developer=False, developer=False)
    return Lesson(learned, "takes a system message at the beginning alone")


def _after_tool(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if not _says(
        refusal.said,
        r"user['\"`]?.{0,40}(?:after|follow).{0,30}tool",
        r"tool['\"`]?.{0,60}(?:followed by|precede|before).{0,30}(?:user|assistant)",
        r"after.{0,20}tool.{0,40}(?:assistant|user)",
    ):
        return None
    learned = msgspec.structs.replace(dialect, user_after_tool=False, later_developer=False)
    return Lesson(
        learned, "takes no user's message after a tool's output: an answer stands between"
    )


def _alternates(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if not _says(
        refusal.said,
        r"alternat|(?:consecutive|successive|adjacent).{0,40}(?:message|role|user|assistant|turn)",
        r"(?:messages?|roles?|turns?).{0,40}(?:in a row|consecutive)|same role|role sequence",
        r"after the optional system|invalid (?:message|role) order|roles? (?:must|order)",
        r"first message.{0,40}user|unexpected role",
    ):
        return None
    learned = msgspec.structs.replace(
        dialect, alternates=True, user_after_tool=False, later_developer=False
    )
    return Lesson(learned, "wants user and assistant to take turns: neighbours are joined")


# --- parts of messages ---------------------------------------------------------------------------


def _content(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if dialect.empty_content == "absent" or not _says(
        refusal.said,
        r"content.{0,120}(?:null|none|nil|string|required|empty|blank|missing|must|valid|undefined)",
        r"(?:null|none|nil|empty|expected).{0,80}content",
    ):
        return None
    calling = [one for one in _messages(refusal.body) if one.get("tool_calls")]
    if not any(not one.get("content") for one in calling):
        return None
    is_null = dialect.empty_content == "null"
    wants_text = _says(refusal.said, r"non.?empty|not be (?:empty|blank)|at least|whitespace")
    form: EmptyContent = "text" if is_null and not wants_text else "absent"
    learned = msgspec.structs.replace(dialect, empty_content=form)
    said = '""' if form == "text" else "left out"
    return Lesson(learned, f"takes no empty `content` beside calls as it was sent: it is {said}")


def _ids(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if not _says(
        refusal.said,
        r"call.?ids?\b|tool_use_id|tool_use\.id|tool_calls?\S{0,12}\.id\b|\ba-z, A-Z, 0-9\b",
        r"\bids?\b.{0,80}(?:length|must|match|pattern|too long|invalid|characters|alphanumeric)",
    ):
        return None
    learned = msgspec.structs.replace(dialect, short_ids=True)
    return Lesson(learned, "refuses the ids of calls: they are short from now on")


def _missing_fields(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    is_missing = _says(
        refusal.said,
        r"missing|required|must (?:be|have|include|contain)|expected|without|pass(?:ed)? back",
    ) and not _says(
        refusal.said,
        r"unsupported|not (?:be )?(?:supported|permitted|allowed|accepted)|unknown|unrecogni[sz]ed|"
        r"unexpected|extra (?:inputs|fields)|additional propert",
    )
    if is_missing and _says(refusal.said, r"thought_?signature"):
        learned = msgspec.structs.replace(dialect, needs_signature=True)
        return Lesson(
            learned, "wants a signature at each call: those of other models get Google's own"
        )
    name = _named_reasoning(refusal.said)
    if not is_missing or not name or all(name in one for one in _calling(refusal.body)):
        return None
    learned = msgspec.structs.replace(dialect, needs_reasoning=name)
    return Lesson(learned, f"wants `{name}` at each answer with calls: it has it from now on")


def _named_reasoning(said: str) -> str:
    found = re.search(r"\b(reasoning_content|reasoning_details|reasoning)\b", said)
    return "" if found is None or found[1] == "reasoning_details" else found[1]


def _calling(body: JsonObject) -> Iterator[JsonObject]:
    return (one for one in _messages(body) if one.get("tool_calls"))


def _own_fields(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    sent = set(_names_in(refusal.body))
    named = {name for name in sent if _mentions(refusal.said, name)}
    if named:
        wanted = "" if dialect.needs_reasoning in named else dialect.needs_reasoning
        learned = msgspec.structs.replace(
            dialect, left_out=dialect.left_out | named, needs_reasoning=wanted
        )
        return Lesson(learned, f"takes no {_listed(named)} in messages: left out of them")
    has_fields = bool(sent) or _has_sealed(refusal.body)
    if (
        dialect.returns_fields
        and has_fields
        and _says(
            refusal.said,
            r"signature|encrypted|could not be (?:verified|decrypted)|reasoning item|corrupt",
        )
    ):
        learned = msgspec.structs.replace(dialect, returns_fields=False)
        return Lesson(learned, "does not take its own sealed fields back: left out of its requests")
    return None


def _names_in(body: JsonObject) -> Iterator[str]:
    """The names of all fields of messages, calls and items that are no standard ones."""
    for message in _messages(body):
        yield from message.keys() - _STANDARD
        for call in _tables(message.get("tool_calls")):
            yield from call.keys() - _STANDARD
            function = call.get("function")
            if isinstance(function, dict):
                yield from cast("JsonObject", function).keys() - _STANDARD
        for block in _tables(message.get("content")):
            if block.get("type") == "tool_use":
                yield from block.keys() - _STANDARD


def _has_sealed(body: JsonObject) -> bool:
    return any(one.get("encrypted_content") for one in _tables(body.get("input")))


def _messages(body: JsonObject) -> Iterator[JsonObject]:
    yield from _tables(body.get("messages"))
    yield from _tables(body.get("input"))


def _tables(value: object) -> Iterator[JsonObject]:
    for inner in cast("list[object]", value) if isinstance(value, list) else ():
        if isinstance(inner, dict):
            yield cast("JsonObject", inner)


# --- tools ---------------------------------------------------------------------------------------


_IMAGE = r"(?:images?|image_url|input_image|vision|visual|multi-?modal)"


def _images(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    """A model without eyes behind a server that says so only now."""
    if not dialect.images or not _has_images(refusal.body):
        return None
    wants_text = _says(
        refusal.said, r"content.{0,60}(?:must be|expected|should be|to be) a?n? ?(?:valid )?string"
    )
    has_null = any(one.get("content", "") is None for one in _messages(refusal.body))
    is_refused = _says(
        refusal.said,
        rf"{_IMAGE}.{{0,80}}(?:not|n't|no |unsupported|only|disabled)",
        rf"(?:not|n't|no|unsupported|unknown|invalid|only|\b0|zero).{{0,80}}{_IMAGE}",
        r"(?:invalid|unsupported|unexpected) content (?:type|part)",
    ) and not _says(refusal.said, r"too (?:large|big)|exceeds?|dimensions|represent a valid image")
    if not is_refused and not (wants_text and not has_null):
        return None
    learned = msgspec.structs.replace(dialect, images=False)
    return Lesson(learned, "takes no images: a text stands for each")


def _has_images(body: JsonObject) -> bool:
    return any(
        part.get("type") in {"image_url", "input_image", "image"}
        for message in _messages(body)
        for outer in (message.get("content"), message.get("output"))
        for part in _parts_in(outer)
    )


def _parts_in(content: object) -> Iterator[JsonObject]:
    for part in _tables(content):
        yield part
        yield from _tables(part.get("content"))  # within a tool's result


def _custom_tools(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if not _says(refusal.said, r"custom_tool_call|custom tools?\b|['\"`]custom['\"`]"):
        return None
    learned = msgspec.structs.replace(dialect, custom_tools=False)
    return Lesson(learned, "takes no freeform tools: they are functions from now on")


def _schemas(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    offered = [tool for tool in refusal.tools if tool.name not in dialect.left_out_tools]
    named = _named_tools(refusal.said, offered)
    speaks = _says(
        refusal.said,
        r"schema|function.?(?:declarations?|parameters)|input_schema|\bparameters\b|\bproperties\b",
    )
    if (
        not offered
        or not (named or speaks)
        or _says(refusal.said, r"response_format|output_config")
    ):
        return None
    if not dialect.plain_schemas and speaks:
        learned = msgspec.structs.replace(dialect, plain_schemas=True)
        about = f" (of {_listed(named)})" if named else ""
        return Lesson(learned, f"refuses a tool's schema{about}: it gets the simplest keywords")
    if not named or not (speaks or _says(refusal.said, r"\btools?\b|function")):
        return None
    learned = msgspec.structs.replace(dialect, left_out_tools=dialect.left_out_tools | named)
    return Lesson(learned, f"refuses {_listed(named)}: not offered to it for the rest of the run")


def _named_tools(said: str, offered: list[ToolSpec]) -> set[str]:
    """The tools that a text names, by name or by their place in the list."""
    named = {
        tool.name
        for tool in offered
        if re.search(rf"(?<![\w-]){re.escape(tool.name)}(?![\w-])", said)
    }
    if named:
        return named
    places = re.findall(r"(?:tools|function_declarations)\W{0,2}(\d{1,4})\b", said)
    return {offered[int(place)].name for place in places if int(place) < len(offered)}


# --- fields of the request -----------------------------------------------------------------------


def _output_limit(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    if not _says(refusal.said, r"max_(?:output_|completion_)?tokens|(?:output|completion) tokens"):
        return None
    sent = refusal.body.get("max_tokens")
    numbers = [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]{2,9}", refusal.said)]
    lower = [one for one in numbers if isinstance(sent, int) and one < sent]
    if not lower:
        return None
    learned = msgspec.structs.replace(dialect, max_output_tokens=max(lower))
    return Lesson(learned, f"gives at most {max(lower):,} tokens in one answer")


def _optional_fields(refusal: Refusal, dialect: Dialect) -> Lesson | None:
    named = set(_named_fields(refusal.said, refusal.body))
    if _mentions(refusal.said, "cache_control"):
        named.add("cache_control")
    if refusal.wire == "responses" and _mentions(refusal.said, "strict"):
        named.add("tools.strict")
    if not named:
        return None
    learned = msgspec.structs.replace(dialect, refused_fields=dialect.refused_fields | named)
    return Lesson(learned, f"does not take {_listed(named)}: left out of its requests")


def _named_fields(said: str, body: JsonObject) -> Iterator[str]:
    for name, value in body.items():
        if name in _NEEDED:
            continue
        inner = list(cast("JsonObject", value)) if isinstance(value, dict) else []
        dotted = [one for one in inner if re.search(rf"\b{name}\W{{1,3}}{one}\b", said)]
        if dotted:
            yield from (f"{name}.{one}" for one in dotted)
        elif _mentions(said, name):
            yield name
        else:
            yield from (f"{name}.{one}" for one in inner if _mentions(said, one))


def _mentions(said: str, name: str) -> bool:
    """True if a text speaks of a field. A name that is an English word must be marked as one."""
    word = re.escape(name)
    if "_" in name:
        return re.search(rf"(?<![A-Za-z0-9_]){word}(?![A-Za-z0-9_])", said) is not None
    marked = (
        rf"['\"`]{word}['\"`]",
        rf"(?:parameters?|fields?|arguments?|propert(?:y|ies)|keys?|options?|body)\W{{1,3}}{word}\b",
        rf"\b{word}['\"`]?\W{{0,2}}(?:is |are )?(?:not (?:supported|allowed|permitted)|unsupported|"
        rf"unknown|unrecognized|extra inputs|extra fields)",
    )
    return any(re.search(one, said, re.IGNORECASE) for one in marked)


def _listed(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


_RULES: tuple[_Rule, ...] = (
    _images,
    _missing_fields,
    _own_fields,
    _custom_tools,
    _output_limit,
    _optional_fields,
    _schemas,
    _no_system,
    _after_tool,
    _alternates,
    _later_system,
    _developer,
    _ids,
    _content,
)
