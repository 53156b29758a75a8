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


def answer_probe(server):
    """A right call, then answers without calls, the last one with the key."""
    use = {"type": "tool_use", "id": "t", "name": "exec_command", "input": {"cmd": "echo ready"}}
    server.add_messages({"type": "text", "text": "ready"})
    server.add_messages(use, stop="tool_use")
    for _ in range(7):
        server.add_messages({"type": "text", "text": f"sorry {KEY}"})


async def test_a_probe_says_what_works_and_shows_no_key(rig, model_server):
    rig.environment["ANTHROPIC_API_KEY"] = KEY
    rig.environment["ANTHROPIC_BASE_URL"] = model_server.origin
    answer_probe(model_server)
    ended = await swarm(rig, "models", "probe", "brand-new", "--provider", "anthropic", "--json")
    assert ended.code == 0, ended.err
    chosen, *tried, summary, advice = lines(ended)
    assert (chosen["model"], chosen["known"]) == ("brand-new", False)
    assert [one["works"] for one in tried] == [True, True, *[False] * 6, True]
    assert (summary["calls_worked"], summary["calls"]) == (1, 5)
    assert 'models."brand-new"' in advice["models_toml"]
    assert KEY not in ended.out + ended.err
    assert model_server.requests[7].json["output_config"]["format"]["type"] == "json_schema"
    assert not (rig.home / "models.toml").exists()


async def test_a_probe_saves_what_it_learned_beside_what_stands_there(rig, model_server):
    rig.environment["ANTHROPIC_API_KEY"] = KEY
    rig.environment["ANTHROPIC_BASE_URL"] = model_server.origin
    catalogue = rig.home / "models.toml"
    catalogue.write_text('# mine\n[models."brand-new"]\ncontext_window = 9000\n')
    answer_probe(model_server)
    ended = await swarm(rig, "models", "probe", "brand-new", "--provider", "anthropic", "--save")
    assert ended.code == 0, ended.err
    assert "1 of 5 worked" in ended.out
    assert f"wrote the entry of brand-new into {catalogue}" in ended.err
    assert catalogue.read_text().startswith("# mine\n")
    listed = await swarm(rig, "models", "list", "--provider", "anthropic", "--json")
    (entry,) = [line for line in lines(listed) if line["name"] == "brand-new"]
    assert (entry["context_window"], entry["calls_tools"]) == (9000, True)


async def test_a_probe_without_an_answer_saves_nothing(rig, model_server):
    rig.environment["ANTHROPIC_API_KEY"] = KEY
    rig.environment["ANTHROPIC_BASE_URL"] = model_server.origin
    model_server.add_error(401)
    ended = await swarm(rig, "models", "probe", "brand-new", "--provider", "anthropic", "--save")
    assert ended.code == 5
    assert not (rig.home / "models.toml").exists()


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
