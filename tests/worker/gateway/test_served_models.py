"""What running servers say of their models: names, windows, and what is said of an unknown name."""

import msgspec
import pytest

from swarm.mailbox.protocol.spec import GatewaySettings, GatewaySpec, ProviderSpec
from swarm.worker.gateway.model_catalogue import load_catalogue
from swarm.worker.gateway.provider_choice import ProviderSelector
from swarm.worker.gateway.provider_keys import ProviderKeys
from swarm.worker.gateway.providers import ProviderError
from swarm.worker.gateway.served_models import ModelListClient, ServedModel, describe_models


async def choose(tmp_path, providers=(), provider=None, model=None):
    spec = GatewaySpec(
        run_id="r",
        epoch=1,
        endpoint="",
        identity=b"",
        secret=b"",
        bind="",
        run_key=b"",
        blobs_dir="",
        models_dir=str(tmp_path),
        settings=GatewaySettings(providers=providers),
        provider=provider,
        model=model,
    )
    return await ProviderSelector(spec, ProviderKeys({}), load_catalogue(), lambda _: None).choose()


def far(server):
    return ProviderSpec(id="far", name="Far", base_url=server.url, wire_api="chat")


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"max_model_len": 8192}, 8192),
        ({"context_length": 65536}, 65536),
        ({"context_window": 131072}, 131072),
        ({"n_ctx": 16384}, 16384),
        ({"meta": {"n_ctx": 16384, "n_ctx_train": 32768}}, 16384),
        ({"meta": {"n_ctx_train": 32768}}, 32768),
        ({"max_context_length": 40960}, 40960),
        ({"max_context_length": 40960, "loaded_context_length": 4096}, 4096),
        ({}, 272_000),
        ({"context_length": None, "meta": None}, 272_000),
        ({"context_length": "many", "max_model_len": -1, "meta": [3]}, 272_000),
        ({"max_model_len": 1e12}, 272_000),
    ],
)
async def test_the_window_of_a_list_is_taken_in_the_words_of_each_server(
    model_server, tmp_path, entry, window
):
    body = msgspec.json.encode({"data": [{"id": "other", "n_ctx": 1}, {"id": "m", **entry}]})
    model_server.lists["/v1/models"] = body
    choice = await choose(tmp_path, (far(model_server),), "far", "m")
    assert (choice.model.slug, choice.model.context_window) == ("m", window)
    assert model_server.requests == []


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b'{"data": 3}', b'{"data": null}'])
async def test_a_list_that_cannot_be_read_leaves_the_cautious_window(model_server, tmp_path, body):
    model_server.lists["/v1/models"] = body
    choice = await choose(tmp_path, (far(model_server),), "far", "m")
    assert (choice.model.slug, choice.model.context_window) == ("m", 272_000)


async def test_a_catalogue_entry_comes_before_what_the_server_says(model_server, tmp_path):
    model_server.lists["/v1/models"] = b'{"data": [{"id": "gpt-5", "n_ctx": 4096}]}'
    choice = await choose(tmp_path, (far(model_server),), "far", "gpt-5")
    assert choice.model.context_window == load_catalogue().entries["gpt-5"].context_window
    assert model_server.listed == []


@pytest.mark.parametrize(
    ("lists", "window"),
    [
        ({}, 32_768),
        ({"/api/show": {"model_info": {"llama.context_length": 131072}}}, 32_768),
        ({"/api/show": {"model_info": {"qwen3.context_length": 8192}}}, 8192),
        ({"/api/show": {"parameters": "stop <x>\nnum_ctx   16384\n"}}, 16384),
        ({"/api/ps": {"models": [{"name": "qwen3:4b", "context_length": 4096}]},
          "/api/show": {"parameters": "num_ctx 16384"}}, 4096),
        ({"/api/show": ["odd"]}, 32_768),
    ],
)  # fmt: skip
async def test_ollama_is_asked_for_the_window_of_the_model_that_is_taken(
    model_server, tmp_path, monkeypatch, lists, window
):
    monkeypatch.setenv("OLLAMA_HOST", model_server.origin)
    model_server.lists["/api/tags"] = b'{"models": [{"name": "qwen3:4b"}, {"name": "b"}]}'
    for target, answer in lists.items():
        model_server.lists[target] = msgspec.json.encode(answer)
    choice = await choose(tmp_path)
    assert (choice.model.slug, choice.model.context_window) == ("qwen3:4b", window)


@pytest.mark.parametrize(
    ("id_", "target", "answer", "window"),
    [
        ("llamacpp", "/props", {"default_generation_settings": {"n_ctx": 16384}}, 16384),
        ("llamacpp", "/props", {"default_generation_settings": 3}, None),
        ("lmstudio", "/api/v0/models",
         {"data": [{"id": "m", "loaded_context_length": 4096, "max_context_length": 32768}]}, 4096),
        ("lmstudio", "/api/v0/models", {"data": [{"id": "n", "loaded_context_length": 1}]}, None),
    ],
)  # fmt: skip
async def test_local_servers_have_lists_of_their_own(model_server, id_, target, answer, window):
    provider = ProviderSpec(id=id_, name=id_, base_url=model_server.url, wire_api="chat")
    model_server.lists[target] = msgspec.json.encode(answer)
    server = ModelListClient(provider, {}, limit_s=5.0)
    found = await server.find_window(ServedModel(name="m"))
    assert found.window_tokens == window


async def test_a_model_that_no_running_server_has_is_told_with_those_that_they_have(
    model_server, tmp_path, monkeypatch
):
    monkeypatch.setenv("OLLAMA_HOST", model_server.origin)
    model_server.lists["/api/tags"] = b'{"models": [{"name": "gpt-oss:20b"}, {"name": "qwen3:4b"}]}'
    with pytest.raises(ProviderError) as caught:
        await choose(tmp_path, model="gpt-os")
    assert str(caught.value) == (
        "no server on this machine has the model 'gpt-os':\n"
        f"  Ollama at {model_server.url} serves gpt-oss:20b, qwen3:4b; did you mean gpt-oss:20b?"
    )


async def test_ollama_leaves_out_the_tag_latest(model_server, tmp_path, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", model_server.origin)
    model_server.lists["/api/tags"] = b'{"models": [{"name": "a"}, {"name": "mine:latest"}]}'
    assert (await choose(tmp_path, model="mine")).model.slug == "mine:latest"


def test_of_many_models_some_are_named():
    models = [ServedModel(name=f"model-{number}") for number in range(12)]
    shown = describe_models(models, "zzz")
    assert shown.startswith("model-0, model-1, ")
    assert shown.endswith("model-7 and 4 more")
