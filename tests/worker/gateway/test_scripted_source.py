"""A script says what it is told to, to whom and when; its mistakes are named with file and line."""

import re
from contextlib import aclosing

import msgspec
import pytest
import trio

from support.paths import ROOT
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Reasoning,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.worker.gateway.answer_script import (
    ScriptError,
    choose_answer,
    load_script,
    matches_agent,
)
from swarm.worker.gateway.backend import (
    RenderedRequest,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseTextDelta,
    SampleError,
)
from swarm.worker.gateway.rate_limiter import RateLimiter
from swarm.worker.gateway.retry_policy import RetryingBackend
from swarm.worker.gateway.scripted_source import ScriptedSource, count_responses

MODEL = ModelInfo(slug="scripted", provider="scripted", wire="scripted")


def load(tmp_path, text):
    path = tmp_path / "script.yaml"
    path.write_text(text)
    return load_script(path)


def open_script(tmp_path, text):
    source = ScriptedSource(load(tmp_path, text), provider="script")
    gate = RateLimiter(announce=lambda _: None, noise=lambda: 0.0)
    return RetryingBackend(source, gate, max_retries=4)


async def ask(backend, path="/root", items=()):
    request = RenderedRequest(
        agent_id="a", agent_path=path, ordinal=1, model=MODEL, items=tuple(items)
    )
    async with aclosing(backend.sample(request)) as events:
        return [event async for event in events]


def items_of(events):
    return [event.item for event in events if isinstance(event, ResponseItemDone)]


def texts_of(events):
    return [text_of(item.content) for item in items_of(events) if isinstance(item, Message)]


async def test_an_answer_has_reasoning_text_calls_and_usage(autojump_clock, tmp_path):
    backend = open_script(
        tmp_path,
        """
turns:
  - reasoning: I should look.
    text: Looking at {agent}.
    chunk_chars: 8
    calls:
      - name: exec_command
        arguments: {cmd: "echo {turn}", n: 3}
      - {name: apply_patch, arguments: "*** Begin", custom: true, id: mine}
    usage: {input_tokens: 100, output_tokens: 7}
""",
    )
    events = await ask(backend)
    assert items_of(events) == [
        Reasoning(id="/root#1.0", summary=("I should look.",)),
        Message(
            role="assistant",
            content=text_message("assistant", "Looking at /root.").content,
            id="/root#1.1",
        ),
        FunctionCall(
            call_id="call_root_1",
            name="exec_command",
            arguments='{"cmd":"echo 1","n":3}',
            id="/root#1.2",
        ),
        CustomToolCall(call_id="mine", name="apply_patch", input="*** Begin", id="/root#1.3"),
    ]
    pieces = [event.text for event in events if isinstance(event, ResponseTextDelta)]
    assert pieces == ["Looking ", "at /root", "."]
    assert isinstance(events[0], ResponseItemStarted)
    assert events[-1].usage.total_tokens == 107


async def test_agents_are_told_apart_by_path_and_turn(autojump_clock, tmp_path):
    backend = open_script(
        tmp_path,
        """
turns:
  - {agent: /root, turn: 2, text: second}
  - {agent: /root, text: first}
  - {agent: /root, text: third}
  - {agent: "/root/*", text: child, repeat: 2}
default: {text: "nothing more for {agent}"}
""",
    )
    said = [texts_of(await ask(backend))[0] for _ in range(4)]
    assert said == ["first", "second", "third", "nothing more for /root"]
    for path in ("/root/a", "/root/b"):
        said = [texts_of(await ask(backend, path))[0] for _ in range(3)]
        assert said == ["child", "child", f"nothing more for {path}"]


async def test_what_was_last_said_can_be_repeated_and_is_not_expanded(autojump_clock, tmp_path):
    backend = open_script(tmp_path, "default: {text: '{last_user}|{last_output}|{other}'}")
    items = [
        text_message("user", "say {agent}"),
        FunctionCallOutput(call_id="c", output="out {turn}"),
    ]
    assert texts_of(await ask(backend, items=items)) == ["say {agent}|out {turn}|{other}"]


async def test_without_a_fitting_entry_the_request_fails_and_says_which(autojump_clock, tmp_path):
    backend = open_script(tmp_path, "turns: [{text: only}]")
    await ask(backend)
    with pytest.raises(SampleError, match="no answer to request 2 of /root"):
        await ask(backend)


async def test_a_scripted_429_is_retried_as_a_real_one(autojump_clock, tmp_path):
    backend = open_script(
        tmp_path, "turns:\n  - fault: {status: 429, retry_after: 30}\n  - text: ok\n"
    )
    begun = trio.current_time()
    events = await ask(backend)
    assert texts_of(events) == ["ok"]
    assert trio.current_time() - begun == pytest.approx(30.0)
    assert any(isinstance(event, RequestWaiting) for event in events)


@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        ("{status: 401}", "unauthorized", False),
        ("{status: 400, code: context_length_exceeded}", "context_window_exceeded", False),
        ("{garbage: true}", "bad_response", True),
        ("{idle: true}", "idle_timeout", True),
    ],
)
async def test_faults_fail_as_a_server_would(autojump_clock, tmp_path, fault, kind, retryable):
    backend = open_script(tmp_path, f"turns:\n  - fault: {fault}\n")
    with pytest.raises(SampleError) as caught:
        await ask(backend)
    assert (caught.value.failure.kind, caught.value.failure.retryable) == (kind, retryable)


async def test_a_disconnect_comes_after_the_items_it_names(autojump_clock, tmp_path):
    text = "turns:\n  - items: [{text: a}, {text: b}]\n    fault: {disconnect_after: 1}\n"
    backend = open_script(tmp_path, text)
    heard = []
    request = RenderedRequest(agent_id="a", agent_path="/root", ordinal=1, model=MODEL)
    with pytest.raises(SampleError) as caught:
        async with aclosing(backend.sample(request)) as events:
            async for event in events:
                heard.append(event)  # noqa: PERF401
    assert texts_of(heard) == ["a"]
    assert caught.value.failure.kind == "stream_disconnected"


async def test_a_hanging_answer_ends_when_it_is_cancelled_and_gives_its_entry_back(
    autojump_clock, tmp_path
):
    backend = open_script(tmp_path, "turns: [{fault: {hang: true}}, {text: later}]")
    for _ in range(2):
        with trio.move_on_after(1000) as scope:
            await ask(backend)
        assert scope.cancelled_caught


async def test_delays_pass_before_the_answer_and_between_its_pieces(autojump_clock, tmp_path):
    text = "turns: [{text: abcdef, delay_s: 2, chunk_chars: 2, chunk_delay_s: 0.5}]"
    begun = trio.current_time()
    events = await ask(open_script(tmp_path, text))
    assert trio.current_time() - begun == pytest.approx(3.5)
    assert isinstance(events[-1], ResponseFinished)


async def test_a_resumed_agent_goes_on_after_the_answers_in_its_history(autojump_clock, tmp_path):
    backend = open_script(tmp_path, "turns: [{text: one}, {text: two}, {text: three}]")
    items = [
        text_message("user", "go"),
        text_message("assistant", "one"),
        FunctionCall(call_id="c", name="n", arguments="{}"),
        FunctionCallOutput(call_id="c", output="o"),
        text_message("assistant", "two"),
        text_message("user", "more"),
    ]
    assert count_responses(items) == 2
    assert texts_of(await ask(backend, items=items)) == ["three"]


def test_a_mail_in_a_history_is_no_response_of_the_model():
    message = msgspec.structs.replace(text_message("assistant", "hello"), author="/root/scout")
    words, answer = text_message("user", "do it"), text_message("assistant", "one")
    assert count_responses([words, answer, words, message]) == 1
    assert count_responses([words, message, answer, message, words, answer]) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("turns:\n  - text: a\n    txt: b\n", ":3: turns[0].txt: unknown key"),
        ("turns:\n  - text: 5\n", ":2: turns[0].text: Expected `str | null`, got `int`"),
        ("turn: []\n", ":1: turn: unknown key"),
        ("turns:\n  - agent: /root\n", ":2: turns[0]: an answer needs"),
        ("turns:\n  - calls:\n      - arguments: {}\n", ":3: turns[0].calls[0]: "),
        ("turns:\n  - fault: {hang: true, idle: true}\n", "turns[0].fault: a fault has exactly"),
        ("turns:\n  - repeat: 0\n    text: a\n", ":2: turns[0]: `repeat` is at least 1"),
        ("turns: [\n", ":2: not valid YAML"),
        ("- a\n", ":1: the file: Expected `object`, got `array`"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(tmp_path, text, told):
    with pytest.raises(ScriptError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/script.yaml:")
    assert told in str(caught.value)


def test_a_missing_script_is_an_error(tmp_path):
    with pytest.raises(ScriptError, match="cannot read the script"):
        load_script(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("pattern", "path", "does"),
    [
        ("**", "/root/a/b", True),
        ("/root", "/root", True),
        ("/root", "/root/a", False),
        ("/root/*", "/root/a", True),
        ("/root/*", "/root/a/b", False),
        ("/root/**", "/root/a/b", True),
        ("/root/sc?ut", "/root/scout", True),
        ("/root/a.b", "/root/axb", False),
    ],
)
def test_globs_match_step_by_step(pattern, path, does):
    assert matches_agent(pattern, path) == does


def test_an_entry_that_repeats_for_ever_never_ends(tmp_path):
    script = load(tmp_path, "turns: [{text: a}, {text: b, repeat: forever}, {text: c}]")
    said = [choose_answer(script, "/root", ordinal).text for ordinal in range(1, 6)]
    assert said == ["a", "b", "b", "b", "b"]


def test_every_example_of_the_documentation_is_a_valid_script(tmp_path):
    page = ROOT / "docs" / "scripted.md"
    examples = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 4
    for example in examples:
        load(tmp_path, example)
