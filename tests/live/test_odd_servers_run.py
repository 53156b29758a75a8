"""Runs with servers of the laboratory, as a user meets them: the task is done, and nothing is asked
six times. Each refusal that teaches something is said once.
"""

import json

import pytest
import trio

from support.servers.odd_server import OddServer, load_profiles

from .test_run_providers import start

pytestmark = pytest.mark.live
LIMIT_S = 60
PROFILES = {profile.name: profile for profile in load_profiles()}
QUICK = {"request_max_retries": 4, "stream_max_retries": 5, "stream_idle_timeout_ms": 5000}


class Server(OddServer):
    """Lets a command run in each of the first turns, then answers."""

    def _answer(self, calls):
        made = (("exec_command", {"cmd": f"echo {self.answers} >> made"}),)
        return super()._answer(made if self.answers <= 2 else ())


@pytest.mark.parametrize(
    "name",
    [
        "gemini compatible", "deepseek thinking", "mistral", "a Gemma template", "anthropic",
        "a Mistral template under another name", "responses on a template", "old LM Studio",
        "a strict proxy", "openai", "a responses server that tells its items twice",
        "a proxy of the messages wire with one number for all blocks",
    ],
)  # fmt: skip
async def test_a_task_is_done_with_an_odd_server(rig, model_server, name):
    profile = PROFILES[name]
    model_server.choose = odd = Server(profile, model_server)
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, wire_api=profile.wire, **QUICK)
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert (rig.work / "made").read_text().split() == ["1", "2"]
    assert odd.answers == 3
    assert len(odd.refusals) <= 4


async def test_a_server_that_refuses_for_ever_is_not_asked_six_times(rig, model_server):
    said = json.dumps({"error": {"message": "Conversation roles must alternate"}}).encode()
    model_server.choose = lambda seen: model_server.reply(said)._replace(status=500)
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, wire_api="chat", **QUICK)
        ended = await run.wait_end()
    assert ended.code == 5
    assert len(model_server.requests) <= 2


async def test_a_history_with_a_bad_call_is_taken_again_after_a_resume(rig, model_server):
    """Its server refuses arguments that are no JSON, and wants its signatures back."""
    profile = PROFILES["gemini compatible"]._replace(
        refuses=PROFILES["gemini compatible"].refuses + PROFILES["llama.cpp with Qwen"].refuses
    )
    model_server.choose = odd = Server(profile, model_server)
    call = odd._entry(0, "functions.exec_command<|channel|>x", '{"cmd": "echo', index=0)
    model_server.default = None
    first = model_server.reply(model_server.chat({"tool_calls": [call]}, finish="tool_calls"))
    said = iter([first])
    model_server.choose = lambda seen: next(said, None) or odd(seen)
    with trio.fail_after(LIMIT_S):
        (rig.home / "config.toml").write_text(
            f'[model_providers.bench]\nbase_url = "{model_server.url}"\nname = "bench"\n'
            'wire_api = "chat"\nrequest_max_retries = 1\n'
        )
        ended = await (await rig.run("bench", "-m", "some-model")).wait_end()
        assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
        again = await (await rig.resume("-p", "again")).wait_end()
    assert again.code == 0, again.err
    assert odd.refusals == []
    assert len(model_server.requests) == 1 + odd.answers
