"""A server that answers with another model than the one that was asked for is warned of, once."""

from contextlib import aclosing

import pytest
import trio

from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.worker.gateway.answering_models import AnsweringModels, is_same_model
from swarm.worker.gateway.backend import RenderedRequest, ResponseFinished
from swarm.worker.gateway.http.http_client import open_http
from swarm.worker.gateway.http_source import HttpSource
from swarm.worker.gateway.provider_keys import ProviderKeys


def warnings_of(provider, *names, asked="qwen2.5-coder"):
    warnings = []
    models = AnsweringModels(ProviderSpec(id=provider, name="My server"), warnings.append)
    for name in names:
        models.note(asked, name)
    return warnings


@pytest.mark.parametrize("provider", ["llamacpp", "mine"])
def test_a_change_is_told_with_both_names_and_only_once(provider):
    told = warnings_of(provider, "qwen2.5-coder", "", "llama-3", "llama-3", "qwen2.5-coder")
    (warning,) = told
    assert "My server has changed its model" in warning
    assert "requests for qwen2.5-coder are now answered by llama-3" in warning
    assert "before by qwen2.5-coder" in warning


def test_a_server_of_this_machine_that_has_another_model_from_the_start_is_told():
    (warning,) = warnings_of("llamacpp", "gemma-3", "gemma-3")
    assert "answers requests for qwen2.5-coder with another model, gemma-3" in warning


def test_a_provider_elsewhere_may_call_its_model_by_another_name():
    assert warnings_of("openrouter", "vendor/its-own-name", "vendor/its-own-name") == []


def test_a_router_with_many_models_is_not_told_of_for_ever():
    assert len(warnings_of("mine", *(f"m{number}" for number in range(100)))) == 7


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31mred", "x" * 1000, "\ud83d"])
def test_a_name_that_is_none_is_passed_over(name):
    assert warnings_of("llamacpp", "qwen2.5-coder", name) == []


@pytest.mark.parametrize(
    ("asked", "said", "same"),
    [
        ("qwen2.5-coder", "qwen2.5-coder:latest", True),
        ("gpt-5", "gpt-5-2025-08-07", True),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet-20250219", True),
        ("/models/Qwen2.5.gguf", "qwen2.5", True),
        ("C:\\models\\qwen.gguf", "qwen", True),
        ("qwen", "llama", False),
    ],
)
def test_a_path_a_tag_or_a_date_makes_no_other_model(asked, said, same):
    assert is_same_model(asked, said) is same


@pytest.mark.parametrize("wire", ["responses", "chat", "messages"])
async def test_on_each_wire_a_server_that_loads_another_model_between_two_answers_is_told(
    wire, model_server
):
    answers = {
        "responses": model_server.responses(model_server.message("ok")),
        "chat": model_server.chat({"content": "ok"}),
        "messages": model_server.messages({"type": "text", "text": "ok"}),
    }
    id_ = {"responses": b'"r1"', "chat": b'"c1"', "messages": b'"msg_1"'}[wire]
    for model in (b'"m"', b"null", b'["odd"]', b'"m"', b'"other"'):
        model_server.add(answers[wire].replace(id_, id_ + b',"model":' + model))
    provider = ProviderSpec(id="p", name="Test", base_url=model_server.url, wire_api=wire)
    info = ModelInfo(slug="m", provider="p", wire=wire)
    request = RenderedRequest(
        agent_id="a", agent_path="/root", ordinal=1, model=info, body=(b"{}",)
    )
    warnings = []
    with trio.fail_after(30):
        async with open_http(provider.base_url) as client:
            source = HttpSource(client, provider, ProviderKeys({}), lambda: "id", warnings.append)
            for count in (0, 0, 0, 0, 1):
                async with aclosing(source.attempt(request)) as events:
                    last = [event async for event in events][-1]
                assert isinstance(last, ResponseFinished)
                assert len(warnings) == count
    assert "requests for m are now answered by other, before by m" in warnings[0]
