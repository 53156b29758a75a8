"""One model server that behaves as a profile of `profiles.toml` says: it reads each request with
the rules of its profile, refuses what they do not allow in its own words, and answers in its own
form.
"""

import itertools
import json
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from .cloud_access import TOKEN_PATH, CloudAccess
from .odd_streams import framed, messages_in_form, responses_in_form

PROFILES = Path(__file__).with_name("profiles.toml")
ERRORS = Path(__file__).with_name("server_errors.toml")
CALLS = (("exec_command", {"cmd": "ls -l"}), ("list_dir", {"dir_path": "."}))
Json = dict[str, Any]


class Rule(NamedTuple):
    """One thing that a server refuses."""

    rule: str
    says: str
    status: int = 400
    pattern: str = ""
    names: tuple[str, ...] = ()


class Profile(NamedTuple):
    """One server."""

    name: str
    wire: str
    model: str
    streams: str
    source: str
    refuses: tuple[Rule, ...] = ()
    gives: Json = {}
    call_ids: tuple[str, ...] = ("call_a", "call_b")
    server: str = ""  # the provider or program that people know; "" = a way that many have
    frames: tuple[str, ...] = ()  # of its stream: see `odd_streams.py`
    access: Json = {}  # of a cloud: see `cloud_access.py`


class ServerError(NamedTuple):
    """What one server says at one moment, and what it means."""

    server: str
    when: str  # too long, spent, rate, overloaded
    status: int
    body: str
    source: str
    headers: Json = {}
    window: int | None = None
    after_s: float | None = None
    resets: bool = False


def load_profiles() -> tuple[Profile, ...]:
    tables = tomllib.loads(PROFILES.read_text("utf-8"))["profiles"]
    return tuple(
        Profile(**{
            **table,
            "call_ids": tuple(table.get("call_ids", ("call_a", "call_b"))),
            "frames": tuple(table.get("frames", ())),
            "refuses": tuple(
                Rule(**{**rule, "names": tuple(rule.get("names", ()))})
                for rule in table.get("refuses", ())
            ),
        })
        for table in tables
    )  # fmt: skip


def load_errors() -> tuple[ServerError, ...]:
    tables = tomllib.loads(ERRORS.read_text("utf-8"))["errors"]
    return tuple(ServerError(**table) for table in tables)


class Turn(NamedTuple):
    """A message as the rules see it, whatever its wire."""

    role: str
    message: Json
    calls: tuple[Json, ...] = ()  # each with `id`, `name`, `arguments` as text, and `raw`
    outputs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def turns_of(wire: str, body: Json) -> list[Turn]:
    """The messages of a request, in their order."""
    if wire == "chat":
        return [_chat_turn(message) for message in body["messages"]]
    if wire == "messages":
        return [_messages_turn(message) for message in body["messages"]]
    return _grouped([_item_turn(item) for item in body["input"]])


def _chat_turn(message: Json) -> Turn:
    calls = tuple(
        {
            "id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
            "raw": call,
        }
        for call in message.get("tool_calls", ())
    )
    outputs = (message["tool_call_id"],) if message["role"] == "tool" else ()
    return Turn(message["role"], message, calls, outputs)


def _messages_turn(message: Json) -> Turn:
    blocks = message["content"]
    calls = tuple(
        {"id": one["id"], "name": one["name"], "arguments": json.dumps(one["input"]), "raw": one}
        for one in blocks
        if one["type"] == "tool_use"
    )
    outputs = tuple(one["tool_use_id"] for one in blocks if one["type"] == "tool_result")
    return Turn(message["role"], message, calls, outputs)


def _item_turn(item: Json) -> Turn:
    match item["type"]:
        case "function_call" | "custom_tool_call":
            arguments = item.get("arguments", "{}")
            call = {
                "id": item["call_id"],
                "name": item["name"],
                "arguments": arguments,
                "raw": item,
            }
            return Turn("assistant", item, (call,))
        case "function_call_output" | "custom_tool_call_output":
            return Turn("tool", item, (), (item["call_id"],))
        case "reasoning":
            return Turn("reasoning", item)
        case _:
            return Turn(item["role"], item)


def _grouped(turns: list[Turn]) -> list[Turn]:
    """What one model wrote in a row is one turn of a template."""
    grouped: list[Turn] = []
    for turn in turns:
        last = grouped[-1] if grouped else None
        is_same = last is not None and last.role == turn.role == "assistant"
        if is_same and (turn.calls or last.calls) and "content" not in turn.message:
            grouped[-1] = last._replace(calls=last.calls + turn.calls)
        else:
            grouped.append(turn)
    return grouped


class OddServer:
    """What the server refuses, and what it says. Set `choose` of a `model_server` to it."""

    def __init__(self, profile: Profile, server: Any) -> None:
        self.profile, self._server = profile, server
        self.refusals: list[str] = []
        self.accepted: list[Json] = []
        self.answers = 0
        self.wants_calls = True
        self.errors: list[ServerError] = []  # said before anything else, one for each request
        self.access = CloudAccess(profile.access) if profile.access else None

    def __call__(self, seen: Any) -> Any:
        if self.access is not None:
            if seen.target.endswith(TOKEN_PATH):
                return self._json(self.access.token(seen.body), 200)
            if problem := self.access.problem(seen):
                self.refusals.append(problem)
                return self._json({"message": problem}, self.access.status)
        body = seen.json
        if self.errors:
            error = self.errors.pop(0)
            pairs = (("content-type", "application/json"), *error.headers.items())
            reply = self._server.reply(error.body.encode())
            return reply._replace(status=error.status, headers=pairs)
        for rule in self.profile.refuses:
            if self._is_broken(rule, body):
                self.refusals.append(rule.rule)
                return self._refused(rule, body)
        self.accepted.append(body)
        self.answers += 1
        calls = CALLS[: 1 + self.answers % 2] if self.wants_calls else ()
        return self._answer(calls)

    def _refused(self, rule: Rule, body: Json) -> Any:
        error: Json = {"message": rule.says, "type": "invalid_request_error"}
        if rule.rule == "fields" and not any(name in rule.says for name in rule.names):
            name = next(name for name in rule.names if name in body)
            error = {"detail": [{"loc": ["body", name], "msg": rule.says, "input": body}]}
        elif rule.rule == "message fields" and not any(name in rule.says for name in rule.names):
            name = next(name for name in rule.names if name in json.dumps(body["messages"]))
            error = {"detail": [{"loc": ["body", "messages", 2, name], "msg": rule.says}]}
        if rule.status == 200:  # the refusal comes in the stream
            return self._server.reply(self._server.sse({"error": {**error, "code": 400}}))
        wrapped = error if "detail" in error else {"error": error}
        return self._json(wrapped, rule.status)

    def _json(self, value: Json, status: int) -> Any:
        reply = self._server.reply(json.dumps(value).encode())
        return reply._replace(status=status, headers=(("content-type", "application/json"),))

    # --- rules -----------------------------------------------------------------------------------

    def _is_broken(self, rule: Rule, body: Json) -> bool:
        turns = turns_of(self.profile.wire, body)
        calls = [call for turn in turns for call in turn.calls]
        roles = [turn.role for turn in turns if turn.role != "reasoning"]
        pairs = list(itertools.pairwise(roles))
        match rule.rule:
            case "call names":
                return any(not re.search(rule.pattern, call["name"]) for call in calls)
            case "call ids":
                return any(not re.search(rule.pattern, call["id"]) for call in calls)
            case "arguments":
                return any(not _is_object(call["arguments"]) for call in calls)
            case "alternates":
                first = next(
                    (role for role in roles if role not in {"system", "developer"}), "user"
                )
                return first != "user" or any(a == b != "tool" for a, b in pairs)
            case "user after tool":
                return ("tool", "user") in pairs
            case "later system":
                return any(role in {"system", "developer"} for role in self._after_opening(roles))
            case "no system":
                return "system" in roles
            case "images":
                return "base64" in json.dumps(body)
            case "null content":
                return any(turn.message.get("content", "") is None for turn in turns)
            case "empty content":
                return any(turn.message.get("content", "x") == "" for turn in turns)
            case "fields":
                return any(name in body for name in rule.names)
            case "message fields":
                return any(name in turn.message for turn in turns for name in rule.names)
            case "composition at the top" | "array without items":
                return any(self._is_bad_schema(rule.rule, one) for one in _schemas(body))
            case _:
                return self._lacks(rule, turns)

    def _lacks(self, rule: Rule, turns: list[Turn]) -> bool:
        """True if something that must come back is missing or changed."""
        calling = [turn for turn in turns if turn.calls]
        given = self.profile.gives
        match rule.rule:
            case "signature":
                wanted = given["call"]["extra_content"]
                own = {
                    **wanted,
                    "google": {"thought_signature": "skip_thought_signature_validator"},
                }
                return any(
                    turn.calls[0]["raw"].get("extra_content") not in (wanted, own)
                    for turn in calling
                )
            case "needs in calling messages":
                return any(name not in turn.message for turn in calling for name in rule.names)
            case "needs as given":
                return any(
                    turn.message.get(name, given["message"][name]) != given["message"][name]
                    for turn in calling
                    for name in rule.names
                ) or not all(
                    name in turn.message for turn in calling[-1:] for name in rule.names
                    if self.accepted and self._is_own(turn)
                )  # fmt: skip
            case "thinking back":
                own = [turn for turn in calling if self._is_own(turn)]
                return any(turn.message["content"][0]["type"] != "thinking" for turn in own)
            case "sealed by another":
                sealed = [turn.message.get("encrypted_content") for turn in turns]
                return any(one not in (None, "own") for one in sealed)
            case unknown:
                raise LookupError(unknown)

    def _is_own(self, turn: Turn) -> bool:
        return all(call["id"] in self.profile.call_ids for call in turn.calls)

    def _after_opening(self, roles: list[str]) -> list[str]:
        opening = {"system", "developer"}
        begun = next((at for at, role in enumerate(roles) if role not in opening), len(roles))
        return roles[begun:]

    def _is_bad_schema(self, rule: str, schema: Json) -> bool:
        if rule == "composition at the top":
            return bool({"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys())
        arrays = [one for one in _nodes(schema) if one.get("type") == "array"]
        return any("items" not in one for one in arrays)

    # --- answers ---------------------------------------------------------------------------------

    def _answer(self, calls: tuple[tuple[str, Json], ...]) -> Any:
        match self.profile.wire:
            case "chat":
                return self._chat_answer(calls)
            case "messages":
                return self._server.reply(self._messages_answer(calls))
            case _:
                return self._server.reply(self._responses_answer(calls))

    def _entry(self, number: int, name: str, arguments: Any, **more: Any) -> Json:
        given = self.profile.gives.get("call", {})
        call_id = self.profile.call_ids[number]
        function = {"name": name, "arguments": arguments}
        return {"id": call_id, "type": "function", "function": function, **given, **more}

    def _chat_answer(self, calls: tuple[tuple[str, Json], ...]) -> Any:
        form = self.profile.streams
        entries = [
            self._entry(number, name, json.dumps(arguments), index=number)
            for number, (name, arguments) in enumerate(calls)
        ]
        own = self.profile.gives.get("message", {})
        text = {"content": "Done." if not calls else None}
        if form == "think":
            text["content"] = "<think>\nhm\n</think>\n\n" + (text["content"] or "")
        if form.startswith("whole json"):
            message = {"role": "assistant", **own, **text, "tool_calls": entries}
            whole = {"choices": [{"message": message, "finish_reason": "stop"}]}
            if form == "whole json":
                return self._json(whole, 200)
            return self._server.reply(json.dumps(whole, indent=1).encode())
        deltas = [{"role": "assistant", **own, **text}, *_chat_deltas(form, entries)]
        chunk_id = 7 if form == "odd fields" else "c"
        chunks: list[Any] = [
            {"id": chunk_id, "choices": [{"index": 0, "delta": one}]} for one in deltas
        ]
        if form in {"last message", "message beside delta"}:
            message = {"content": text["content"], "tool_calls": entries}
            beside = {} if form == "last message" else {"delta": {}}
            chunks = [{"choices": [{"delta": {"role": "assistant"}}]}]
            chunks.append({"choices": [{**beside, "message": message, "finish_reason": "stop"}]})
        elif form != "no finish":
            chunks.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
        data = self._server.sse(*chunks, "[DONE]")
        return self._server.reply(framed(data, "chat", self.profile.frames))

    def _responses_answer(self, calls: tuple[tuple[str, Json], ...]) -> bytes:
        items: list[Json] = []
        if self.profile.name == "openai":
            sealed = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "own"}
            items.append(sealed)
        text = "" if calls else "Done."
        if self.profile.streams == "think":
            text = f"<think>hm</think>{text}"
        if text:
            items.append(self._server.message(text))
        items += [
            self._server.function_call(name, arguments, self.profile.call_ids[number])
            for number, (name, arguments) in enumerate(calls)
        ]
        counted = len(json.dumps(self.accepted[-1])) // 4  # as a server would, about
        usage = {"input_tokens": counted, "output_tokens": 5, "total_tokens": counted + 5}
        data = responses_in_form(self._server.responses(*items, usage=usage), self.profile.streams)
        return framed(data, "responses", self.profile.frames)

    def _messages_answer(self, calls: tuple[tuple[str, Json], ...]) -> bytes:
        blocks: list[Json] = []
        if "thinking" in self.profile.gives:
            thinking = self.profile.gives["thinking"]
            blocks.append({"type": "thinking", "thinking": thinking, "signature": ""})
        blocks += [{"type": "text", "text": "Done."}] if not calls else []
        blocks += [
            {"type": "tool_use", "id": self.profile.call_ids[number], "name": name, "input": given}
            for number, (name, given) in enumerate(calls)
        ]
        data = self._server.messages(*blocks, stop="tool_use" if calls else "end_turn")
        data = messages_in_form(data, self.profile.streams)
        return framed(data, "messages", self.profile.frames)


def _chat_deltas(form: str, entries: list[Json]) -> list[Json]:
    """How the calls of an answer arrive."""
    match form:
        case "one chunk, no index":
            bare = [{key: one[key] for key in one if key not in {"index", "id"}} for one in entries]
            return [{"tool_calls": bare}] if bare else []
        case "whole":
            return [{"tool_calls": [one]} for one in entries]
        case "empty ids":
            return [
                delta
                for one in entries
                for delta in (
                    {"tool_calls": [_with_arguments(one, "")]},
                    *(
                        {"tool_calls": [{**_with_arguments(one, piece), "id": ""}]}
                        for piece in _halves(one["function"]["arguments"])
                    ),
                )
            ]
        case "same index":
            return [{"tool_calls": [{**one, "index": 0, "id": ""}]} for one in entries]
        case "gaps":
            return [{"tool_calls": [{**one, "index": 1 + 2 * one["index"]}]} for one in entries]
        case "objects":
            return [
                {"tool_calls": [_with_arguments(one, json.loads(one["function"]["arguments"]))]}
                for one in entries
            ]
        case "split name":
            return [
                {"tool_calls": [{"index": one["index"], "function": part}]}
                for one in entries
                for part in _named_in_two(one["function"])
            ]
        case "name by the token":
            return [
                {"tool_calls": [{"index": one["index"], "function": part}]}
                for one in entries
                for part in (
                    *({"name": piece} for piece in re.findall("_|[a-z]+", one["function"]["name"])),
                    {"arguments": one["function"]["arguments"]},
                )
            ]
        case "odd fields":
            empty = {"name": "", "arguments": ""}
            return [
                {"tool_calls": [{**one, "index": str(one["index"])}], "function_call": empty}
                for one in entries
            ]
        case "name in each":
            return [
                {"tool_calls": [_with_arguments(one, piece)]}
                for one in entries
                for piece in _halves(one["function"]["arguments"])
            ]
        case _:
            return [
                delta
                for one in entries
                for delta in (
                    {"tool_calls": [_with_arguments(one, "")]},
                    *(
                        {"tool_calls": [{"index": one["index"], "function": {"arguments": piece}}]}
                        for piece in _halves(one["function"]["arguments"])
                    ),
                )
            ]


def _with_arguments(entry: Json, arguments: Any) -> Json:
    return {**entry, "function": {**entry["function"], "arguments": arguments}}


def _named_in_two(function: Json) -> list[Json]:
    first, second = _halves(function["name"])
    return [{"name": first}, {"name": second}, {"arguments": function["arguments"]}]


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _schemas(body: Json) -> list[Json]:
    found = []
    for tool in body.get("tools", ()):
        function = tool.get("function", tool)
        found.append(function.get("parameters") or function.get("input_schema") or {})
    return found


def _nodes(value: Any) -> list[Json]:
    if isinstance(value, list):
        return [node for inner in value for node in _nodes(inner)]
    if isinstance(value, dict):
        return [value, *(node for inner in value.values() for node in _nodes(inner))]
    return []


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
