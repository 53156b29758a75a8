"""Tool calls of small models as JSON text that the server's grammar enforces.

A small model writes calls that cannot be read. A server with constrained decoding (llama.cpp, vLLM
and others take a JSON schema as `response_format`) lets it write nothing else than one object
`{"thought": …, "name": …, "arguments": …}`, whose name is an offered tool and whose arguments have
the tool's form. The answer for the user is a call as well, of `finish`. So every response can be
read. One short thought comes first: without it a small model calls before it has read the output.

Where the agent offers `begin_task`, each task begins with it: the model says what the task asks
for, and the agent lets it change nothing before. Then the answer is offered only after a call that
looks: a small model would answer what it has not looked up; a greeting is answered at once. Nor is
the answer offered right after an edit that failed: a small model would give up at the first word.
Only the arguments that a tool requires are offered: each further one is a chance to be wrong.
Commands, paths, texts and answers have a longest length, because a model that repeats itself would
fill the whole response; what reaches it was cut, and is not used.
"""

import re
from collections.abc import Collection
from typing import cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json, decode_json_as, depth_checked
from swarm.mailbox.contents.context_markers import split_sentences, task_in
from swarm.mailbox.parts.tool_names import BEGIN_TASK
from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Message,
    OutputText,
    Reasoning,
    text_of,
)
from swarm.mailbox.protocol.sampling import ToolSpec

from .chat_request import ChatStore
from .chat_stream import ChatStream
from .request_encoding import HeadKey

FINISH = "finish"
_SUMMARY_CHARS = 300  # of a tool's description
_SHOWN_CHARS = 400  # of a call that was cut
_MOST_REPEATS = 2  # then the tool is not offered for one response
_MOST_FAILED_EDITS = 2  # in a row, after which the answer is not offered
_MOST_OUTPUTS = 20  # that are compared with a new one
_THOUGHT_CHARS = 200
_MOST_SENTENCES, _SENTENCE_CHARS = 8, 200  # of a task, that the model may quote
_MOST_CHARS = {  # servers refuse grammars beyond 2,000
    "cmd": 1_000, "path": 300, "old_text": 2_000, "new_text": 2_000, "answer": 2_000
}  # fmt: skip
# Placeholders, because a small model copies a concrete example and works on files of its own.
_PLACEHOLDERS = {
    "asks_for": "<question, change or greeting>",
    "words": "<words of the task>",
    "cmd": "<shell command>",
    "path": "<file>",
    "old_text": "<lines as they are>",
    "new_text": "<lines as they are to be>",
    "answer": "<one or two sentences>",
}
_ABOUTS = {  # shorter than for other models, and without what these cannot use
    BEGIN_TASK: "The first call of each task: say what it asks for. question: it is to be "
    "answered, and no file may change. change: its words ask to change, add or remove something. "
    "greeting: there is nothing to look up.",
    "exec_command": "Run one shell command in the folder of the project: cat to read a file, "
    "grep -rIn to search all files, find . -name '*.EXT' to list files, a test, a program. You "
    "see its exit code and output.",
    FINISH: "End the work with your final answer to the user.",
}
_SEEN_BEFORE = (
    "\n(You made this same call before, and it gave the same output. Do not make it again. If the "
    "outputs hold the answer, call finish. Else read the file as a whole, or try another way.)"
)
_HEADER_WITHOUT_USE = ("Chunk ID:", "Wall time:", "Original token count:")
_NO_OUTPUT = "(no output)"
_SEARCH = re.compile(r"\b(?:e?grep|rg|find)\b")
_NOTHING_FOUND = "(nothing was found: read the file itself with cat, or search for another word)"
_NO_TEST = "(no test ran: there is none yet, so this shows nothing. Write the test first.)"
_RAN_NO_TEST = re.compile(r"(?m)^(?:Ran 0 tests in |NO TESTS RAN|=+ no tests ran)")
_THOUGHT = "<what is still missing, and the next step>"
_to_json = msgspec.json.Encoder().encode

JsonObject = dict[str, object]


class WrittenCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model writes, in this order."""

    thought: str = ""
    name: str
    arguments: msgspec.Raw


_decode_call = depth_checked(msgspec.json.Decoder(WrittenCall).decode)


def call_schema(
    tools: tuple[ToolSpec, ...],
    answer_schema: bytes | None,
    *,
    without: Collection[str] = (),
    task: str = "",
) -> bytes:
    """The JSON schema of one response: a call of one of the tools, or of `finish`.

    Args:
        answer_schema: What the final answer must be; None: text.
        without: Names that are not offered this time.
        task: The words of the task; `begin_task` names a sentence of it.
    """
    forms = _quoting(_forms(tools, answer_schema), task)
    offered = [_call_form(*form) for form in forms if form[0] not in without]
    return _to_json({"anyOf": offered})


def describe_calls(tools: tuple[ToolSpec, ...], answer_schema: bytes | None) -> str:
    """The part of the instructions that lists the tools, with the form of each."""
    lines = [
        "Every answer is exactly one JSON object that calls one tool. You see its output, then you "
        f"call the next tool. When the work is done, call {FINISH}. The tools:",
    ]
    abouts = {tool.name: _summary(tool.description) for tool in tools} | _ABOUTS
    for name, form in _forms(tools, answer_schema):
        shown = {"thought": _THOUGHT, "name": name, "arguments": _placeholders(form)}
        call = _to_json(shown).decode()
        lines.append(f"- {name}: {abouts[name]}\n  {call}")
    return "\n".join(lines)


def _forms(
    tools: tuple[ToolSpec, ...], answer_schema: bytes | None
) -> list[tuple[str, JsonObject]]:
    """Name and argument schema of each tool, with the required properties alone."""
    answer: object = {"type": "string"}
    if answer_schema is not None:
        answer = decode_json(answer_schema)
    finish: JsonObject = {"properties": {"answer": answer}, "required": ["answer"]}
    return [
        *((tool.name, _required_only(decode_json(tool.parameters))) for tool in tools),
        (FINISH, _required_only(finish)),
    ]


def _quoting(forms: list[tuple[str, JsonObject]], task: str) -> list[tuple[str, JsonObject]]:
    """The forms, in which `words` of `begin_task` is a sentence of the task: a small model that
    shall copy words writes on and on.
    """
    sentences = [one for one in split_sentences(task) if len(one) <= _SENTENCE_CHARS]
    half = _MOST_SENTENCES // 2
    shown = sentences if len(sentences) <= 2 * half else sentences[:half] + sentences[-half:]
    words: JsonObject = {"type": "string", "maxLength": _SENTENCE_CHARS}
    if shown:
        words = {"type": "string", "enum": list(dict.fromkeys(shown))}
    found: list[tuple[str, JsonObject]] = []
    for name, form in forms:
        properties = cast("JsonObject", form["properties"])
        if name == BEGIN_TASK and "words" in properties:
            form = {**form, "properties": {**properties, "words": words}}
        found.append((name, form))
    return found


def _required_only(schema: object) -> JsonObject:
    table = cast("JsonObject", schema) if isinstance(schema, dict) else {}
    properties = cast("JsonObject", table.get("properties") or {})
    required = cast("list[str]", table.get("required") or [])
    kept = {name: _bounded(name, properties[name]) for name in required if name in properties}
    return {
        "type": "object",
        "properties": kept,
        "required": list(kept),
        "additionalProperties": False,
    }


def _bounded(name: str, schema: object) -> object:
    """The schema of a text with its longest length; others unchanged. Descriptions go."""
    if not isinstance(schema, dict):
        return schema
    table = cast("JsonObject", schema)
    if table.get("type") != "string" or "enum" in table:
        return {key: table[key] for key in table if key != "description"}
    limit = _MOST_CHARS.get(name)
    return {"type": "string"} if limit is None else {"type": "string", "maxLength": limit}


def _call_form(name: str, arguments: JsonObject) -> JsonObject:
    thought = {"type": "string", "maxLength": _THOUGHT_CHARS}
    return {
        "type": "object",
        "properties": {"thought": thought, "name": {"const": name}, "arguments": arguments},
        "required": ["thought", "name", "arguments"],
        "additionalProperties": False,
    }


def _placeholders(form: JsonObject) -> JsonObject:
    properties = cast("JsonObject", form["properties"])
    return {name: _PLACEHOLDERS.get(name, f"<{name}>") for name in properties}


def _summary(description: str) -> str:
    """The first paragraph, cut at a sentence."""
    text = " ".join(description.strip().partition("\n\n")[0].split())
    if len(text) <= _SUMMARY_CHARS:
        return text
    end = text.rfind(". ", 0, _SUMMARY_CHARS)
    return text[: end + 1] if end > 0 else text[:_SUMMARY_CHARS]


def as_text(item: AnyItem, *, thought: str = "") -> AnyItem:
    """A call, its output or an answer as the message that the model writes or reads.

    Args:
        thought: What the model wrote before the call.
    """
    match item:
        case FunctionCall(name=name, arguments=arguments):
            return _written(name, arguments or "{}", thought)
        case CustomToolCall(name=name, input=text):
            return _written(name, _to_json({"input": text}).decode(), thought)
        case FunctionCallOutput() | CustomToolCallOutput():
            return Message(role="user", content=(InputText(text=observation(item)),))
        case Message(role="assistant", author=None, content=content):
            text = text_of(content)
            if text.lstrip().startswith("{"):
                return item  # a call that could not be read: it is corrected in this form
            return _written(FINISH, _to_json({"answer": text}).decode(), thought)
        case _:
            return item


def observation(item: FunctionCallOutput | CustomToolCallOutput) -> str:
    """What the model reads of a call's output: the exit code and the output, no times and ids."""
    text = item.output if isinstance(item.output, str) else text_of(item.output)
    header, found, output = text.partition("Output:\n")
    if not found:
        return f"Output:\n{text or _NO_OUTPUT}"
    kept = [line for line in header.splitlines() if not line.startswith(_HEADER_WITHOUT_USE)]
    return "\n".join((*kept, f"Output:\n{output if output.strip() else _NO_OUTPUT}"))


def _written(name: str, arguments: str, thought: str) -> Message:
    try:
        raw = msgspec.Raw(arguments.encode())
        text = _to_json(WrittenCall(thought=thought, name=name, arguments=raw)).decode()
        decode_json(text)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        text = f'{{"name": "{name}"}}'
    return Message(role="assistant", content=(OutputText(text=text),))


class ConstrainedChatStore(ChatStore):
    """A conversation of the chat wire whose calls and outputs are plain messages."""

    _is_schema_refused = False  # of this server; a new history does not change that

    def clear(self) -> None:
        super().clear()
        self._thought = ""  # that came before the next call
        self._call = ""  # the latest one, whose output is awaited
        self._outputs: dict[str, str] = {}  # the latest output of each of the last calls
        self._has_looked = False  # it has made a call that looks since the latest task
        self._task = ""  # the latest words of the person
        self._claimed = ""  # what the latest task asks for, as the model has said
        self._failed_edits = 0  # in a row, the latest call among them
        self._repeats = 0  # of the latest call, in a row, each with the same output

    def append(self, item: AnyItem) -> None:
        if isinstance(item, Reasoning):
            self._count += 1
            self._thought = "\n".join(item.content)[:_THOUGHT_CHARS]
            return
        if isinstance(item, FunctionCall):
            self._call = f"{item.name} {item.arguments}"
            if item.name == BEGIN_TASK:
                self._claimed = _claim_in(item.arguments)
            else:
                self._has_looked = True
        elif isinstance(item, Message) and item.role == "user" and item.author is None:
            if task := task_in(text_of(item.content)):
                self._task, self._claimed = task, ""  # another task, or more of it
        elif isinstance(item, Message) and item.role == "assistant" and item.author is None:
            self._has_looked = False  # an answer: the next message is another task
        if isinstance(item, FunctionCallOutput):
            if item.success is False and self._call.startswith(f"{BEGIN_TASK} "):
                self._claimed = "refused"  # a change that the task does not ask for
            is_failed_edit = item.success is False and self._call.startswith("edit_file ")
            self._failed_edits = self._failed_edits + 1 if is_failed_edit else 0
        text = as_text(item, thought=self._thought)
        if isinstance(item, FunctionCallOutput) and isinstance(text, Message):
            text = self._marked_if_repeated(text)
        super().append(text)
        self._thought = ""

    def _marked_if_repeated(self, output: Message) -> Message:
        """The output; a search without a result, and what the same call gave before, say so."""
        text = text_of(output.content)
        if _SEARCH.search(self._call) and text.endswith(_NO_OUTPUT):
            text = text.removesuffix(_NO_OUTPUT) + _NOTHING_FOUND
        if _RAN_NO_TEST.search(text):
            text = f"{text.rstrip()}\n{_NO_TEST}"
        is_repeated = self._outputs.pop(self._call, None) == text
        self._outputs[self._call] = text
        if len(self._outputs) > _MOST_OUTPUTS:
            del self._outputs[next(iter(self._outputs))]
        self._repeats = self._repeats + 1 if is_repeated else 0
        told = text + _SEEN_BEFORE if is_repeated else text
        return Message(role="user", content=(InputText(text=told),))

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        if not key.tools or key.compacts:
            return super().body(key, cache_key)
        listing = describe_calls(key.tools, key.output_schema)
        closed = self._closed_tools(key.tools)
        schema = call_schema(key.tools, key.output_schema, without=closed, task=self._task)
        bound = msgspec.structs.replace(
            key,
            tools=(),
            instructions=f"{key.instructions}\n\n{listing}".strip(),
            output_schema=None if self._is_schema_refused else schema,
        )
        return super().body(bound, cache_key)

    def without_schema(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        """The server refuses the schema: the instructions alone ask for the form from now on."""
        if self._is_schema_refused or not key.tools or key.compacts:
            return ()
        self._is_schema_refused = True
        return self.body(key, cache_key)

    def _closed_tools(self, tools: tuple[ToolSpec, ...]) -> set[str]:
        """What is not offered: all but `begin_task` before it was called, the answer before a look
        or after a failed edit, and a tool that is called again and again.
        """
        names = {tool.name for tool in tools}
        if BEGIN_TASK in names and not self._claimed:
            return {*names, FINISH} - {BEGIN_TASK}
        is_said = self._claimed == "change" or (self._claimed == "refused" and not self._has_looked)
        closed = {BEGIN_TASK} if is_said else set[str]()
        has_looked = self._has_looked or self._claimed == "greeting"
        if not has_looked or 0 < self._failed_edits <= _MOST_FAILED_EDITS:
            closed.add(FINISH)
        elif self._repeats >= _MOST_REPEATS:
            closed.add(self._call.partition(" ")[0])
        return closed

    def with_partial(self, key: HeadKey, cache_key: str, text: str) -> tuple[bytes, ...]:
        return ()  # half a call is asked for again, from its beginning


class ConstrainedChatStream(ChatStream):
    """One response that is one call. The call of `finish` becomes the message of the answer.

    A call that reached a longest length is a message with its text, which the agent takes for a
    call that cannot be read. Such an answer is truncated.
    """

    def _take_text(self, text: str) -> None:
        """The JSON text is kept, and not shown while it arrives."""
        self._text.add(text)

    def _end(self) -> None:
        call = self._call()
        if call is not None and call.name == FINISH and _cut_argument(call.arguments):
            self._finish_reason = "length"  # the grammar ended the answer, as a limit would
        super()._end()

    def _call(self) -> WrittenCall | None:
        try:
            return _decode_call(self._text.whole().strip())
        except msgspec.MsgspecError:
            return None

    def _emit_items(self, *, truncated: bool) -> None:
        call = self._call()
        if call is None:
            super()._emit_items(truncated=truncated)
            return
        if call.thought:
            self._emit_item(Reasoning(content=(call.thought,), id=f"rs_{self._new_id()}"))
        if call.name == FINISH:
            self._emit_text_message(_answer(call.arguments))
        elif cut := _cut_argument(call.arguments):
            note = f"{self._text.whole()[:_SHOWN_CHARS]}… (cut: `{cut}` is too long)"
            self._emit_text_message(note)
        else:
            arguments = bytes(call.arguments).decode()
            call_id = f"call_{self._new_id()}"
            self._emit_item(FunctionCall(call_id=call_id, name=call.name, arguments=arguments))

    def _emit_text_message(self, text: str) -> None:
        part = OutputText(text=text)
        self._emit_item(Message(role="assistant", content=(part,), id=f"msg_{self._new_id()}"))


def _claim_in(arguments: str) -> str:
    """What a call of `begin_task` says that the task asks for; a question where it says nothing."""
    try:
        table = decode_json_as(arguments, dict[str, object])
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return "question"
    claimed = table.get("asks_for")
    return claimed if isinstance(claimed, str) and claimed else "question"


def _cut_argument(arguments: msgspec.Raw) -> str:
    """The name of an argument that has reached its longest length; "" if there is none."""
    table = cast("JsonObject", decode_json(arguments))
    for name, limit in _MOST_CHARS.items():
        value = table.get(name)
        if isinstance(value, str) and len(value) >= limit:
            return name
    return ""


def _answer(arguments: msgspec.Raw) -> str:
    """The answer of `finish`: its text, or its object as JSON."""
    table = cast("JsonObject", decode_json(arguments))
    answer = table.get("answer", "")
    return answer if isinstance(answer, str) else _to_json(answer).decode()
