"""Secrets, prices, catalogue, providers and tapes: what the gateway knows and writes down."""

from contextlib import aclosing
from functools import partial

import pytest

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.items import TokenUsage, text_message
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySettings, GatewaySpec, ProviderSpec
from swarm.worker.gateway import providers
from swarm.worker.gateway.backend import (
    Failure,
    RenderedRequest,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    SampleError,
)
from swarm.worker.gateway.http_source import provider_urls
from swarm.worker.gateway.model_catalogue import CatalogueError, load_catalogue
from swarm.worker.gateway.provider_choice import ProviderSelector
from swarm.worker.gateway.provider_keys import ProviderKeys
from swarm.worker.gateway.providers import (
    ProviderError,
    all_providers,
    built_in_providers,
    key_problem,
)
from swarm.worker.gateway.recording import (
    RecordingBackend,
    RecordingError,
    RecordingHeader,
    RecordingWriter,
    ReplayBackend,
    load_recording,
)
from swarm.worker.gateway.request_headers import Unsigned, own_headers
from swarm.worker.gateway.token_usage import price_usd

POST = Unsigned("POST", "https://models.example.com/v1/messages")
KEY = "my-very-own-key"
MODEL = ModelInfo(slug="m", provider="p", wire="scripted")


# --- secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"key {KEY}!", "key [redacted]!"),
        ("sk-proj-abcdefghijklmnop1234", "[redacted]"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted]"),
        ("https://user:pass@proxy:1", "https://user:[redacted]@proxy:1"),
        ('{"api_key": "abcdef123"}', '{"api_key": "[redacted]"}'),
        ("ghp_" + "a" * 36, "[redacted]"),
        ("the task-list and a sk-ipped word", "the task-list and a sk-ipped word"),
        ("sha256 b179c9523d0e6a0f98a330c7562b6827", "sha256 b179c9523d0e6a0f98a330c7562b6827"),
        ("authorization failed", "authorization failed"),
    ],
)
def test_secrets_are_blanked_and_other_words_stay(text, clean):
    assert Redactor([KEY, "", "abc"]).redact_error(text) == clean


# --- prices ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prices", "usd"),
    [
        ((2.0, 0.5, 8.0), (600 * 2.0 + 400 * 0.5 + 100 * 8.0) / 1e6),
        ((2.0, None, 8.0), (1000 * 2.0 + 100 * 8.0) / 1e6),
        ((0.0, 0.0, 0.0), 0.0),
        ((None, 0.5, 8.0), None),
        ((2.0, 0.5, None), None),
    ],
)
def test_a_response_costs_its_tokens_times_their_prices(prices, usd):
    model = ModelInfo(
        slug="m",
        provider="p",
        wire="chat",
        input_usd_per_million=prices[0],
        cached_usd_per_million=prices[1],
        output_usd_per_million=prices[2],
    )
    usage = TokenUsage(input_tokens=1000, cached_input_tokens=400, output_tokens=100)
    assert price_usd(usage, model) == (None if usd is None else pytest.approx(usd))


# --- catalogue ---------------------------------------------------------------------------------


def test_the_built_in_catalogue_has_a_default_for_the_big_provider():
    catalogue = load_catalogue()
    slug = catalogue.default_of("openai")
    assert slug is not None
    model = catalogue.describe(slug, provider="openai", wire="responses")
    assert model.known and model.reasoning and model.input_usd_per_million


def test_an_unknown_model_gets_cautious_values():
    model = load_catalogue().describe("new", provider="ollama", wire="chat")
    assert not model.known
    assert model.context_window == 32_768


def test_an_added_file_changes_just_what_it_names(tmp_path):
    path = tmp_path / "models.toml"
    path.write_text('[models."gpt-5"]\ncontext_window = 7\n')
    model = load_catalogue([str(path)]).describe("gpt-5", provider="x", wire="chat")
    assert (model.context_window, model.reasoning) == (7, True)


@pytest.mark.parametrize("text", ["[models.x]\nwindow = 1\n", "[models.x]\ncontext_window = 'a'\n"])
def test_a_mistake_in_a_catalogue_names_file_and_key(tmp_path, text):
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(CatalogueError, match=r"models\.toml.*window"):
        load_catalogue([str(path)])


# --- providers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"id": "openai"}, "cannot be redefined"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"base_url": ""}, "base_url"),
        ({"wire_api": "smoke"}, "wire_api"),
        ({"stream_idle_timeout_ms": 0}, "stream_idle_timeout_ms"),
        ({"http_headers": {"x": "a\r\nb: c"}}, "http_headers.x"),
    ],
)
def test_a_provider_that_makes_no_sense_is_refused_by_key(changes, told):
    settings = {"id": "mine", "name": "Mine", "base_url": "https://x/v1", **changes}
    with pytest.raises(ProviderError, match=told):
        all_providers((ProviderSpec(**settings),))


def test_a_key_that_no_header_may_hold_is_told_without_the_key():
    provider = built_in_providers({})[0]
    problem = key_problem(provider, {"OPENAI_API_KEY": "sk-ä\nsecret"})
    assert problem is not None and "OPENAI_API_KEY" in problem and "secret" not in problem


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("box:9", "http://box:9/v1"),
        ("https://box", "https://box:443/v1"),
    ],
)
def test_the_address_of_ollama_follows_its_own_variable(host, url):
    found = {one.id: one.base_url for one in built_in_providers({"OLLAMA_HOST": host})}
    assert found["ollama"] == url


def test_query_and_headers_come_from_the_configuration_and_blank_ones_are_left_out():
    provider = ProviderSpec(
        id="az",
        name="Az",
        base_url="https://x/v1/",
        env_key="K",
        query_params={"api-version": "1"},
        http_headers={"X-One": "1"},
        env_http_headers={"X-Two": "TWO", "X-Three": "THREE"},
    )
    address = provider_urls(provider)
    assert address.url == "https://x/v1/responses?api-version=1"
    assert address.shown == "https://x/v1/responses"
    assert own_headers(provider, {"K": KEY, "TWO": "2", "THREE": " "}, POST) == {
        "authorization": f"Bearer {KEY}",
        "x-one": "1",
        "x-two": "2",
    }


# --- the choice --------------------------------------------------------------------------------


def gateway_spec(providers=(), **settings):
    return GatewaySpec(
        run_id="r",
        epoch=1,
        endpoint="",
        identity=b"",
        secret=b"",
        bind="",
        run_key=b"",
        blobs_dir="",
        models_dir="",
        settings=GatewaySettings(providers=providers),
        **settings,
    )


async def choose(keys, **settings):
    told = []
    selector = ProviderSelector(
        gateway_spec(**settings), ProviderKeys(keys), load_catalogue(), told.append
    )
    return await selector.choose()


async def test_a_key_chooses_its_provider_and_says_so():
    choice = await choose({"OPENAI_API_KEY": KEY})
    assert choice.provider.id == "openai"
    assert choice.why == "OPENAI_API_KEY is set"


async def test_a_configured_provider_with_its_key_goes_before_a_built_in_one():
    mine = ProviderSpec(id="mine", name="M", base_url="https://x/v1", env_key="MINE")
    choice = await choose({"OPENAI_API_KEY": KEY, "MINE": KEY}, providers=(mine,), model="m")
    assert (choice.provider.id, choice.model.known) == ("mine", False)


async def test_an_unknown_provider_is_told_with_the_known_ones():
    with pytest.raises(ProviderError, match="known are openai"):
        await choose({}, provider="opnai")


async def test_the_only_model_that_a_provider_lists_is_taken(model_server):
    mine = ProviderSpec(id="mine", name="M", base_url=model_server.url)
    body = b'{"data": [{"id": "just-me"}, {"id": "an-embedding"}]}'
    model_server.lists["/v1/models"] = body
    choice = await choose({}, provider="mine", providers=(mine,))
    assert choice.model.slug == "just-me"


async def test_of_many_models_one_must_be_named(model_server):
    mine = ProviderSpec(id="mine", name="M", base_url=model_server.url)
    model_server.lists["/v1/models"] = b'{"data": [{"id": "a"}, {"id": "b"}]}'
    with pytest.raises(ProviderError, match="name one with -m, for example: a, b"):
        await choose({}, provider="mine", providers=(mine,))


async def test_a_local_server_that_answers_is_used_when_there_is_no_key(model_server, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", model_server.origin)
    model_server.lists["/api/tags"] = b'{"models": [{"name": "qwen3:4b"}]}'
    choice = await choose({})
    assert (choice.provider.id, choice.model.slug) == ("ollama", "qwen3:4b")
    assert choice.why.startswith("no key is set, and Ollama answers at")


async def test_what_answers_at_the_port_of_a_known_server_and_is_another_is_not_used(
    model_server, monkeypatch
):
    """Neither is it taken for it, nor does it get a person's files unasked; the error names it."""
    monkeypatch.setattr(providers, "_local_server", partial(_local_server_at, url=model_server.url))
    model_server.lists["/v1/models"] = b'{"data": [{"id": "m", "owned_by": "vllm"}]}'
    with pytest.raises(ProviderError, match=f"What answers at {model_server.url} is no LM Studio"):
        await choose({}, model="m")
    model_server.lists["/props"] = b'{"default_generation_settings": {"n_ctx": 4096}}'
    choice = await choose({}, model="m")
    assert (choice.provider.id, choice.model.slug) == ("llamacpp", "m")


def _local_server_at(id_, name, base_url, *, continues_text=True, url):
    return ProviderSpec(id=id_, name=name, base_url=url, wire_api="chat")


# --- tapes -------------------------------------------------------------------------------------


class Once:
    async def sample(self, request):
        yield RequestWaiting(reason="not recorded", delay_s=1.0)
        yield ResponseItemDone(item=text_message("assistant", f"to {request.agent_path} {KEY}"))
        if request.ordinal == 2:
            raise SampleError(Failure(kind="overloaded", message="busy", retryable=True))
        yield ResponseFinished()


def request(ordinal=1, path="/root", shape=b""):
    return RenderedRequest(agent_id="a", agent_path=path, ordinal=ordinal, model=MODEL, shape=shape)


async def heard(backend, asked):
    events = []
    try:
        async with aclosing(backend.sample(asked)) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401
    except SampleError as error:
        events.append(error.failure)
    return events


async def test_a_tape_gives_back_what_was_said_and_holds_no_key(tmp_path):
    path = tmp_path / "tape"
    tape = RecordingWriter(path, Redactor([KEY]), pytest.fail)
    tape.write(RecordingHeader(version=1, provider="p", model=MODEL))
    recorder = RecordingBackend(Once(), tape)
    said = [await heard(recorder, request(ordinal)) for ordinal in (1, 2)]
    tape.close()
    assert KEY not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    warned = []
    replay = ReplayBackend(load_recording(path), warned.append)
    again = [await heard(replay, request(ordinal)) for ordinal in (1, 2)]
    assert [events[1:][1:] for events in said] == [events[1:] for events in again]
    (missing,) = await heard(replay, request(3))
    assert missing.kind == "bad_request"
    assert "request 3 of /root is not in the recording" in missing.message
    assert warned == []


async def test_a_run_that_went_another_way_is_warned_of_once(tmp_path):
    path = tmp_path / "tape"
    tape = RecordingWriter(path, Redactor([]), pytest.fail)
    tape.write(RecordingHeader(version=1, provider="p", model=MODEL))
    await heard(RecordingBackend(Once(), tape), request(1))
    warned = []
    replay = ReplayBackend(load_recording(path), warned.append)
    for _ in range(2):
        assert isinstance((await heard(replay, request(1, shape=b"other")))[-1], ResponseFinished)
    (text,) = warned
    assert "differs from the recording" in text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "an empty recording"),
        ("{}\n{}\n", ":1: not a line of a recording"),
        ('{"type":"response","path":"/root","ordinal":1}\n', ":1: not the beginning"),
    ],
)
def test_a_file_that_is_no_tape_is_refused(tmp_path, text, told):
    path = tmp_path / "tape"
    path.write_text(text)
    with pytest.raises(RecordingError, match=told):
        load_recording(path)


def test_a_tape_of_another_version_is_refused(tmp_path):
    path = tmp_path / "tape"
    RecordingWriter(path, Redactor([]), pytest.fail).write(
        RecordingHeader(version=99, provider="p", model=MODEL)
    )
    with pytest.raises(RecordingError, match="version 99"):
        load_recording(path)


def test_a_full_disk_ends_the_recording_and_not_the_run():
    from pathlib import Path

    warned = []
    tape = RecordingWriter(Path("/dev/full"), Redactor([]), warned.append)
    tape.write(RecordingHeader(version=1, provider="p", model=MODEL))
    tape.write(RecordingHeader(version=1, provider="p", model=MODEL))
    (text,) = warned
    assert "recording to /dev/full ended" in text
