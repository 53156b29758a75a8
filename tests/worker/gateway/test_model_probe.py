"""A probe: what counts as working, what it advises, and a catalogue that a person changes."""

import json

import msgspec
import pytest

from support.nested_fields import with_fields
from support.servers.odd_server import OddServer, load_profiles
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import ProbeOrder, ProviderSpec
from swarm.worker.gateway import model_probe
from swarm.worker.gateway.app import GatewayDependencies, open_gateway_app
from swarm.worker.gateway.fit.dialect import told_apart
from swarm.worker.gateway.model_catalogue import load_catalogue
from swarm.worker.gateway.model_probe import (
    ProbedModel,
    ProbeResult,
    ProbeSummary,
    advise,
    learned_entry,
    run_probe,
    summarize,
)
from swarm.worker.probe.probe_tasks import probe_tasks

KEY = "sk-sentinel-0123456789abcdef"
MODEL = ModelInfo(slug="m", provider="p", wire="messages", can_call_tools=True)


def outcomes(**works):
    return {test: ProbeResult(test=test, works=yes, answered=True) for test, yes in works.items()}


def summary(worked, *, known=False):
    return ProbeSummary(
        calls_worked=worked, calls=5, context_window=32_768, window_known=known,
        input_tokens_per_s=None, output_tokens_per_s=None, memory_bytes=None,
    )  # fmt: skip


def entry_of(chosen, found, worked):
    return learned_entry(chosen, found, summary(worked))


def test_advice_is_a_table_that_the_catalogue_can_read(tmp_path):
    model = msgspec.structs.replace(MODEL, known=False, slug='odd "name"')
    chosen = ProbedModel(provider="mine", model=model, why="")
    learned = entry_of(chosen, outcomes(schema=True), 0)
    path = tmp_path / "models.toml"
    path.write_text(advise(chosen, learned, summary(0)))
    entry = load_catalogue([str(path)]).entries['odd "name"']
    assert (entry.provider, entry.can_call_tools, entry.structured_output) == ("mine", False, True)
    assert "# a guess" in path.read_text()
    assert "context_window = 272000\n" in advise(chosen, learned, summary(0, known=True))


def test_nothing_is_advised_where_the_entry_says_it_already():
    model = msgspec.structs.replace(MODEL, structured_output=True)
    chosen = ProbedModel(provider="p", model=model, why="")
    assert entry_of(chosen, outcomes(schema=True), 5) == {}
    assert advise(chosen, {}, summary(5)) == ""
    assert entry_of(chosen, outcomes(schema=True), 0)["can_call_tools"] is False


@pytest.mark.parametrize(
    ("wire", "schema", "worked", "wanted"),
    [
        ("chat", True, 5, {"can_call_tools": True}),
        ("chat", True, 2, {"can_call_tools": True, "constrained_calls": True}),
        ("chat", True, 0, {"can_call_tools": True, "constrained_calls": True}),
        ("chat", False, 2, {"can_call_tools": True}),
        ("chat", False, 0, {"can_call_tools": False}),
        ("responses", True, 2, {"can_call_tools": True}),
    ],
)
def test_calls_are_to_be_constrained_where_few_work_and_the_server_keeps_to_a_schema(
    wire, schema, worked, wanted
):
    model = msgspec.structs.replace(MODEL, wire=wire, known=False)
    chosen = ProbedModel(provider="p", model=model, why="")
    entry = entry_of(chosen, outcomes(schema=schema), worked)
    assert {key: entry[key] for key in entry if key.endswith("calls") or "tools" in key} == wanted


def test_a_small_window_gets_the_short_prompt():
    small = msgspec.structs.replace(MODEL, wire="chat", context_window=8_192, known=False)
    chosen = ProbedModel(provider="p", model=small, why="")
    assert entry_of(chosen, outcomes(schema=True), 5)["short_prompt"] is True


def test_the_speed_of_input_leaves_out_what_the_server_had_cached():
    timed = {"works": True, "answered": True}
    found = [
        ProbeResult(test="text", seconds=1.0, first_byte_s=0.5, input_tokens=50, **timed),
        ProbeResult(
            test="tool", seconds=4.0, first_byte_s=2.0, input_tokens=500, cached_tokens=100,
            output_tokens=25, **timed,
        ),
    ]  # fmt: skip
    told = summarize(MODEL, found, memory_bytes=None)
    assert (told.input_tokens_per_s, told.output_tokens_per_s) == (200.0, 10.0)
    assert (told.calls_worked, told.calls, told.window_known) == (1, 1, True)


async def probe(server, catalogue=(), **settings):
    told = {"id": "p", "name": "P", "base_url": server.url, "wire_api": "chat", **settings}
    provider = ProviderSpec(env_key="K", request_max_retries=0, **told)
    order = ProbeOrder(
        providers=(provider,),
        provider="p",
        model="m",
        keys={"K": KEY},
        limit_s=2.0,
        catalogue=catalogue,
    )
    return [one async for one in run_probe(order, probe_tasks())]


def chat_call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": "a", "function": function}]}


RIGHT_CALLS = (
    chat_call("exec_command", cmd="echo ready"),
    chat_call("exec_command", cmd="""grep -n "it's \\"here\\"" 'my notes.txt'"""),
    chat_call("list_dir", dir_path="/srv/data", depth=3),
    chat_call(
        "update_plan",
        plan=[{"step": "a", "status": "completed"}, {"step": "b", "status": "in_progress"}],
    ),
    chat_call("exec_command", cmd="head -1 /srv/data/harvest-1987.csv"),
    chat_call(
        "apply_patch",
        input="*** Begin Patch\n*** Update File: double.py\n@@\n-    return number + number\n"
        "+    return 2 * number\n*** End Patch",
    ),
)


async def test_nine_requests_are_sent_and_what_a_server_refuses_beyond_text_is_an_answer(
    model_server,
):
    model_server.lists["/v1/models"] = b'{"data": [{"id": "m", "max_model_len": 9000}]}'
    model_server.add_chat({"content": "ready"})
    for call in RIGHT_CALLS:
        model_server.add_chat(call, finish="tool_calls")
    model_server.add_error(400, {"message": f"no response_format, {KEY}"})
    model_server.add_chat({"content": "ready"})
    chosen, *found, told = await probe(model_server)
    assert (chosen.provider, chosen.model.slug) == ("p", "m")
    assert told.dialect == {}
    assert [(one.test, one.works, one.detail) for one in found[:-2]] == [
        (name, True, "")
        for name in ("text", "tool", "tool_quotes", "tool_choice", "tool_nested", "tool_follow_up",
                     "patch")
    ]  # fmt: skip
    assert (found[-2].test, found[-2].works, found[-2].answered) == ("schema", False, True)
    assert KEY not in found[-2].detail
    assert (found[-1].test, found[-1].works) == ("ways", True)
    assert (told.calls_worked, told.context_window, told.window_known) == (5, 9000, True)
    assert told.memory_bytes is not None  # the server's: it is on this machine
    assert told.memory_bytes > 1 << 20
    sent = [seen.json for seen in model_server.requests]
    assert [len(body.get("tools", ())) for body in sent] == [0, 1, 1, 4, 4, 4, 1, 0, 2]
    assert ["response_format" in body for body in sent] == [False] * 7 + [True, False]
    assert sent[5]["messages"][-1]["role"] == "tool"


@pytest.mark.parametrize(
    "name",
    [
        "mistral", "a Gemma template", "a gateway that takes no empty content", "a strict proxy",
        "a Mistral template under another name",
    ],
)  # fmt: skip
async def test_what_an_unknown_server_refuses_is_learned_and_never_refused_again(
    model_server, tmp_path, name
):
    (profile,) = [one for one in load_profiles() if one.name == name]
    model_server.choose = odd = OddServer(profile, model_server)
    odd.wants_calls = False
    chosen, *found, told = await probe(model_server)
    assert odd.refusals
    assert told.dialect
    entry = learned_entry(chosen, {one.test: one for one in found}, told)
    lines = advise(chosen, entry, told)
    (tmp_path / "models.toml").write_text(lines)
    saved = load_catalogue([str(tmp_path / "models.toml")]).find("m")
    assert saved is not None and saved.dialect is not None
    assert told_apart(saved.dialect) == told.dialect
    before = len(odd.refusals)
    _, *_, again = await probe(model_server, catalogue=(str(tmp_path / "models.toml"),))
    assert len(odd.refusals) == before
    assert again.dialect == {}


async def test_one_slow_answer_is_a_result_and_the_other_tests_go_on(model_server):
    model_server.add_chat({"content": "ready"})
    model_server.add("hang")
    for call in RIGHT_CALLS[1:]:
        model_server.add_chat(call, finish="tool_calls")
    model_server.add_chat({"content": "ready"})
    model_server.add_chat({"content": "ready"})
    _, *results, told = await probe(model_server)
    slow = [one.test for one in results if one.slow]
    assert slow == ["tool"]
    assert (told.calls_worked, told.calls) == (4, 5)


async def test_a_server_that_has_become_silent_is_not_asked_to_the_end(model_server):
    model_server.add_chat({"content": "ready"})
    model_server.add("hang")
    model_server.add("hang")
    _, *results = await probe(model_server)
    assert [one.slow for one in results] == [False, True, True]


@pytest.mark.parametrize("fault", ["401", "hang", "garbage"])
async def test_a_server_that_does_not_answer_is_asked_once_only(model_server, fault):
    match fault:
        case "401":
            model_server.add_error(401, {"message": f"bad {KEY}"})
        case "hang":
            model_server.add("hang")
        case _:
            model_server.add(b"\x00\x01 what?")
    _, outcome = await probe(model_server)
    assert not outcome.answered
    assert outcome.detail
    assert KEY not in outcome.detail
    assert len(model_server.requests) == 1


# --- the catalogue ------------------------------------------------------------------------------


def catalogue(folder, *texts):
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.toml"
        path.write_text(text)
        paths.append(str(path))
    return load_catalogue(paths)


def test_a_persons_file_changes_entries_key_by_key_and_adds_its_own(tmp_path):
    found = catalogue(
        tmp_path,
        '[models."claude-opus-5-5"]\ninput_usd_per_million = 1.0\n[models.mine]\nprovider = "x"\n',
        '[models."claude-opus-5-5"]\noutput_usd_per_million = 2.0\n',
    )
    entry = found.entries["claude-opus-5-5"]
    assert (entry.input_usd_per_million, entry.output_usd_per_million) == (1.0, 2.0)
    assert entry.context_window == 1_000_000
    assert found.sources["claude-opus-5-5"].endswith("1.toml")
    assert found.sources["mine"].endswith("0.toml")
    assert found.sources["gpt-5"] == ""


def test_a_default_of_ones_own_goes_before_the_built_in_one(tmp_path):
    assert load_catalogue().default_of("anthropic") == "claude-opus-5-5"
    found = catalogue(tmp_path, '[models."claude-haiku-5-5"]\ndefault = true\n')
    assert found.default_of("anthropic") == "claude-haiku-5-5"
    assert found.default_of("nobody") is None


def test_a_dated_name_is_described_by_the_entry_without_its_date():
    found = load_catalogue()
    dated = found.describe("claude-haiku-4-5-20251001", provider="anthropic", wire="messages")
    assert (dated.slug, dated.known, dated.max_output_tokens) == (
        "claude-haiku-4-5-20251001", True, 64_000,
    )  # fmt: skip
    assert not found.describe("claude-haiku-4-5-2025", provider="p", wire="chat").known


@pytest.mark.parametrize(
    "text",
    ["context_window = 'big'", "window = 1", "thinking = 'deep'", "[models"],
)
def test_a_broken_catalogue_is_told_with_its_file(tmp_path, text):
    with pytest.raises(UsageError, match=r"0\.toml"):
        catalogue(tmp_path, f"[models.a]\n{text}")


def test_every_entry_that_thinks_on_the_messages_wire_has_a_limit_and_a_price():
    for slug, entry in load_catalogue().entries.items():
        if entry.provider == "anthropic":
            assert entry.thinking, slug
            assert entry.max_output_tokens, slug
            assert entry.input_usd_per_million, slug
            json.dumps(msgspec.to_builtins(entry))


def test_a_family_is_an_entry_for_names_without_one(tmp_path):
    (tmp_path / "models.toml").write_text(
        '[models."qwen3*"]\nreasoning = true\ndefault = true\nprovider = "p"\n'
        '[models."qwen3-coder*"]\ncontext_window = 9000\n'
        '[models."qwen3-coder-own"]\nimage_input = false\n'
    )
    catalogue = load_catalogue([str(tmp_path / "models.toml")])

    def described(slug):
        return catalogue.describe(slug, provider="p", wire="chat")

    assert described("maker/Qwen3-8B").reasoning
    assert described("qwen3-8b").known
    assert described("qwen3-coder-30b").context_window == 9000
    assert not described("qwen3-coder-own").image_input
    assert not described("another").known
    assert catalogue.default_of("p") is None


@pytest.mark.parametrize(("says", "asked"), [(None, False), (True, True), (False, False)])
async def test_the_configuration_says_whether_an_unknown_model_reasons(says, asked):
    provider = ProviderSpec(id="p", name="P", base_url="http://127.0.0.1:1/v1")
    order = ProbeOrder(providers=(provider,), provider="p", model="unheard-of", limit_s=1.0)
    spec = with_fields(model_probe._spec(order), model_reasons=says)

    async def on_secret(_):
        """There is none."""

    dependencies = GatewayDependencies({}, on_secret=on_secret, announce=print, warn=print)
    async with open_gateway_app(spec, dependencies) as app:
        assert app.model_for(app.own, None, "/root").reasoning is asked
        assert app.model_for(app.own, "also-unheard-of", "/root").reasoning is asked
        assert app.model_for(app.own, "gpt-5.1", "/root").reasoning
