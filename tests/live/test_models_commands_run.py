"""`swarm models list` and `probe` as a person types them."""

import json

import pytest
import trio

pytestmark = pytest.mark.live
LIMIT_S = 60
KEY = "sk-ant-sentinel-0123456789abcdef"


async def swarm(rig, *words):
    with trio.fail_after(LIMIT_S):
        return await (await rig.start(*words)).wait_end()


def lines(ended):
    return [json.loads(line) for line in ended.out.splitlines()]


async def test_the_list_tells_prices_abilities_and_who_changed_an_entry(rig):
    (rig.home / "models.toml").write_text('[models."claude-haiku-5-5"]\ntitle = "My favourite"\n')
    ended = await swarm(rig, "models", "list", "--json")
    assert ended.code == 0, ended.err
    found = {line["name"]: line for line in lines(ended)}
    assert found["claude-opus-5-5"]["default"] is True
    assert found["claude-opus-5-5"]["cache_write_usd_per_million"] == 5.0
    assert found["claude-haiku-5-5"]["about"] == "My favourite"
    assert found["claude-haiku-5-5"]["source"].endswith("models.toml")
    assert found["smollm2"]["size_bytes"] > 1_000_000
    shown = await swarm(rig, "models", "list", "--provider", "anthropic")
    assert "claude-opus-5-5 *" in shown.out
    assert "gpt" not in shown.out


async def test_a_probe_says_what_works_and_shows_no_key(rig, model_server):
    rig.environment["ANTHROPIC_API_KEY"] = KEY
    rig.environment["ANTHROPIC_BASE_URL"] = model_server.origin
    use = {"type": "tool_use", "id": "t", "name": "report", "input": {"word": "ready"}}
    model_server.add_messages({"type": "text", "text": "ready"})
    model_server.add_messages(use, stop="tool_use")
    model_server.add_messages({"type": "text", "text": f"sorry {KEY}"})
    ended = await swarm(rig, "models", "probe", "brand-new", "--provider", "anthropic", "--json")
    assert ended.code == 0, ended.err
    chosen, *tried, advice = lines(ended)
    assert (chosen["model"], chosen["known"]) == ("brand-new", False)
    assert [one["works"] for one in tried] == [True, True, False]
    assert 'models."brand-new"' in advice["models_toml"]
    assert KEY not in ended.out + ended.err
    assert model_server.requests[2].json["output_config"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--provider", "nope"), "nope"),
        (("claude-opus-5-5",), "ANTHROPIC_API_KEY"),
        (("--provider", "ollama"), "does not answer"),
        (("--provider", "far", "x"), "127.0.0.1:1"),
    ],
)
async def test_what_cannot_be_probed_ends_with_code_5_and_says_why(rig, words, told):
    rig.environment["OLLAMA_HOST"] = "127.0.0.1:1"
    (rig.home / "config.toml").write_text(
        '[model_providers.far]\nbase_url = "http://127.0.0.1:1/v1"\nrequest_max_retries = 0\n'
    )
    ended = await swarm(rig, "models", "probe", *words)
    assert ended.code == 5
    assert told in ended.err + ended.out


async def test_without_words_a_probe_asks_no_model(rig, model_server):
    rig.environment["ANTHROPIC_API_KEY"] = KEY
    rig.environment["ANTHROPIC_BASE_URL"] = model_server.origin
    ended = await swarm(rig, "models", "probe")
    assert ended.code == 0, ended.err
    assert "provider anthropic" in ended.out
    assert model_server.requests == []
    assert KEY not in ended.out + ended.err
