"""The request body of the Messages wire (Anthropic's): tools, system and messages as JSON bytes.

What a server has received is never encoded differently later: signed thinking and the prompt cache
are valid only while everything before them is the same. So the messages are one growing buffer, and
what a request needs at its end (a missing output, a user's turn) stays in it. Cache marks are
inserted when the parts are joined; they are not part of the prefix.

The wire requires: user and assistant alternate, the first and the last message are the user's; all
outputs of a turn are at the start of the one message after the calls; no message has only thinking.
"""

import re

import msgspec

from swarm.mailbox.protocol.items import (
    ContentPart,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    Message,
    Reasoning,
    text_of,
)

from .fit.dialect import BEGINNING
from .fit.item_fitting import own_fields
from .fit.neighbours import later_developer_text
from .request_encoding import (
    NO_OUTPUT,
    GroupedItemStore,
    HeadKey,
    to_json,
    unseal_block,
)

GO_ON = "(go on)"
NO_TEXT = "(no words)"
CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_DATA_URL = re.compile(r"data:(?P<mime>[^;,]+);base64,(?P<data>.*)\Z", re.DOTALL)


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Base64(msgspec.Struct, tag_field="type", tag="base64"):
    media_type: str
    data: str


class _Url(msgspec.Struct, tag_field="type", tag="url"):
    url: str


class _Image(msgspec.Struct, tag_field="type", tag="image"):
    source: _Base64 | _Url


class _ToolUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: msgspec.Raw


class _ToolResult(msgspec.Struct, tag_field="type", tag="tool_result", omit_defaults=True):
    tool_use_id: str
    content: str | tuple[_Text | _Image, ...] = ""
    is_error: bool = False


class MessagesStore(GroupedItemStore):
    """The messages of one conversation as one buffer; the last message is left open."""

    def clear(self) -> None:
        super().clear()
        self._leading: list[bytes] = []  # developer texts at the start: part of the system prompt
        self._buffer = bytearray()
        self._role = ""  # of the open message
        self._markable = 0  # where the mark of the newest block that may have one would go
        self._marks: list[int] = []  # positions of the last two requests' marks
        self._thoughts: list[bytes] = []  # blocks that wait for the answer or call after them
        self._thought_spans: list[tuple[int, int]] = []  # in the buffer, with the comma after them
        self._calls: list[str] = []  # of the open message, until all outputs have arrived
        self._outputs: dict[str, bytes] = {}
        self._later: list[bytes] = []  # a user's blocks that came between calls and outputs

    @property
    def _is_at_start(self) -> bool:
        return not self._role

    def _add_leading(self, text: str) -> None:
        if block := _text(text):
            self._leading.append(block)

    def _add_answer_text(self, text: str) -> None:
        if block := _text(text):
            self._add_answer(block)

    def _add_message(self, item: Message) -> None:
        for block in self._input_blocks(item):
            self._add_input(block)

    def _add_reasoning(self, item: Reasoning) -> None:
        opened = unseal_block(item, slug=self._context.model.slug)
        if opened is not None:
            self._make_room()
            self._thoughts.append(to_json(opened))

    def body(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        self._close_turn()
        if self._markable and self._markable not in self._marks:
            self._marks = [*self._marks[-1:], self._markable]
        head = self._heads.get(key)
        system = [head.after] if head.after else []
        system += self._leading
        parts = [head.before]
        mark = b"" if "cache_control" in self._dialect.refused_fields else CACHE_MARK
        if system:
            parts += [b',"system":[', b",".join(system), b"]"]
        parts.append(b',"messages":[')
        begin = 0
        for place in self._marks:
            parts += [bytes(self._buffer[begin:place]), mark]
            begin = place
        return (*parts, bytes(self._buffer[begin:]), b"]}]}")

    def with_partial(self, key: HeadKey, cache_key: str, text: str) -> tuple[bytes, ...]:
        """() for a model that thinks: it does not accept a partial answer."""
        if self._context.model.thinking:
            return ()
        *parts, end = self.body(key, cache_key)
        last = b']},{"role":"assistant","content":[' + to_json(_Text(text=text))
        return (*parts, last, end)

    def without_thinking(self, key: HeadKey, cache_key: str) -> tuple[bytes, ...]:
        """The body without any earlier thinking, from now on: the server rejects it."""
        if not self._thought_spans:
            return ()
        for start, end in reversed(self._thought_spans):
            del self._buffer[start:end]
            if self._markable >= end:
                self._markable -= end - start
        self._thought_spans, self._marks = [], []
        return self.body(key, cache_key)

    # --- growth of the buffer --------------------------------------------------------------

    def _put(self, role: str, block: bytes, *, markable: bool = True) -> None:
        if role == self._role:
            self._buffer += b","
        else:
            if self._role:
                self._buffer += b"]},"
            self._buffer += b'{"role":"' + role.encode() + b'","content":['
            self._role = role
        self._buffer += block
        if markable:
            self._markable = len(self._buffer) - 1

    def _add_answer(self, block: bytes) -> None:
        """Add a text or a call of the model, after the thinking that led to it."""
        self._make_room()
        self._write_answer(block)

    def _write_answer(self, block: bytes) -> None:
        if not self._role:
            self._put("user", _text(BEGINNING))
        for thought in self._thoughts:
            self._put("assistant", thought, markable=False)
            end = len(self._buffer)
            self._thought_spans.append((end - len(thought), end + 1))
        self._thoughts.clear()
        self._put("assistant", block)

    def _make_room(self) -> None:
        """What the model says after outputs, or after other messages, is a new message."""
        if self._outputs or self._later:
            self._settle()

    def _add_call(self, call: FunctionCall) -> None:
        given = msgspec.Raw(call.arguments.encode())
        called = to_json(_ToolUse(id=call.call_id, name=call.name, input=given))
        if fields := own_fields(call.origin):
            called = called[:-1] + b"," + to_json(fields)[1:]
        self._add_answer(called)
        self._calls.append(call.call_id)

    def _add_input(self, block: bytes) -> None:
        if self._calls:
            self._later.append(block)
            return
        self._end_thoughts()
        self._put("user", block)

    def _add_output(self, item: FunctionCallOutput | CustomToolCallOutput) -> None:
        call_id = item.call_id
        if call_id not in self._calls or call_id in self._outputs:
            return  # an output without its call: the server would refuse the whole request
        self._outputs[call_id] = to_json(self._result(call_id, item))
        if len(self._outputs) == len(self._calls):
            self._settle()

    def _settle(self) -> None:
        """Add the outputs in the order of the calls, then the messages that came meanwhile."""
        self._end_thoughts()
        for call_id in self._calls:
            lost = _ToolResult(tool_use_id=call_id, content=NO_OUTPUT, is_error=True)
            self._put("user", self._outputs.get(call_id) or to_json(lost))
        for block in self._later:
            self._put("user", block)
        self._calls.clear()
        self._outputs.clear()
        self._later.clear()

    def _end_thoughts(self) -> None:
        """End thinking that no answer follows: a message must not end with thinking."""
        if self._thoughts:
            self._write_answer(_text(NO_TEXT))

    def _close_turn(self) -> None:
        """Make the request end with a user's message."""
        if self._calls:
            self._settle()
        self._end_thoughts()
        if self._role != "user":
            self._put("user", _text(GO_ON if self._role else BEGINNING))

    # --- blocks ------------------------------------------------------------------------------

    def _input_blocks(self, item: Message) -> list[bytes]:
        """Blocks of the input. A later developer message is marked as such."""
        if item.role == "developer" and item.author is None:
            text = text_of(item.content)
            return [_text(later_developer_text(text))] if text.strip() else []
        return [to_json(block) for block in self._blocks(item.content)]

    def _blocks(self, content: tuple[ContentPart, ...]) -> list[_Text | _Image]:
        blocks: list[_Text | _Image] = []
        for part in self._resolve(content):
            if isinstance(part, InputImage):
                blocks.append(_image(part.image_url))
            elif part.text.strip():
                blocks.append(_Text(text=part.text))
        return blocks

    def _result(self, call_id: str, item: FunctionCallOutput | CustomToolCallOutput) -> _ToolResult:
        output = item.output
        if isinstance(output, str):
            failed = item.success is False
            return _ToolResult(tool_use_id=call_id, content=output, is_error=failed)
        return _ToolResult(tool_use_id=call_id, content=tuple(self._blocks(output)))


def _text(text: str) -> bytes:
    """An encoded text block; b"" for a blank text, which the wire refuses."""
    return to_json(_Text(text=text)) if text.strip() else b""


def _image(url: str) -> _Text | _Image:
    found = _DATA_URL.match(url)
    if found is None:
        return _Image(source=_Url(url=url))
    if found["mime"] not in _IMAGE_TYPES:
        return _Text(text=f"[an image was here; {found['mime']} cannot be sent]")
    return _Image(source=_Base64(media_type=found["mime"], data=found["data"]))
