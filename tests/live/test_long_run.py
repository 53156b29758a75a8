"""Three hundred steps of one agent, through all that happens to a long run.

The model here has no memory but what each request tells it: it finds the last step in the input
and takes the next one. So the right answer is the proof that nothing was forgotten on the way.
"""

import json
import re
import signal
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from threading import Thread

import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan, TurnAborted
from swarm.mailbox.protocol.records import ContextRecorded
from swarm.worker.agent.context.context_blocks import harness_text

pytestmark = pytest.mark.live
STEPS, LIMIT_S = 300, 240
ASKS_SUMMARY = harness_text("compact_prompt").split("\n")[0][:40]


class ForgetfulModel:
    """Speaks the Responses API; keeps the bodies of what it was asked, and nothing else."""

    def __init__(self):
        self.bodies = []

    def answer(self, body):
        number = len(self.bodies)
        self.bodies.append(body)
        told = json.loads(body)["input"]
        text = json.dumps(told, ensure_ascii=False)
        last = max((int(step) for step in re.findall(r"step (\d+) done", text)), default=0)
        if ASKS_SUMMARY in json.dumps(told[-1], ensure_ascii=False):
            item = words(number, f"So far: step {last} done.")
        elif last < STEPS:
            script = f"echo {last + 1} >> ledger; printf %900s; echo; echo step {last + 1} done"
            item = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}",
                    "name": "exec_command", "arguments": json.dumps({"cmd": script})}  # fmt: skip
        else:
            item = words(number, f"{last} steps, {'BLUE' if 'BLUE' in text else 'no colour'}")
        used = len(body) // 4
        usage = {"input_tokens": used, "output_tokens": 20, "total_tokens": used + 20}
        return b"".join(
            b"data: " + json.dumps(event).encode() + b"\n\n"
            for event in (
                {"type": "response.created", "response": {"id": f"r{number}"}},
                {"type": "response.output_item.done", "item": item},
                {"type": "response.completed", "response": {"id": f"r{number}", "usage": usage}},
            )
        )


def words(number, text):
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "id": f"m{number}", "role": "assistant", "content": content}


@contextmanager
def served(model):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            length = int(self.headers["content-length"])
            body = self.rfile.read(length)
            if len(body) < length:  # the kill cut it off: nobody asked that, and nobody waits
                self.close_connection = True
                return
            answer = model.answer(body)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def input_of(body):
    """The items of a request as they were sent, without the end of their list."""
    begin = body.index(b'"input":')
    return body[begin : body.index(b'],"prompt_cache_key"', begin)]


async def step(rig, number):
    ledger = rig.work / "ledger"
    while not ledger.exists() or len(ledger.read_text().split()) < number:  # noqa: ASYNC110
        await trio.sleep(0.01)


async def succeeds(rig, *arguments):
    asked = await rig.start(*arguments)
    assert (await asked.wait_end()).code == 0


async def test_after_300_steps_compactions_interrupts_words_and_a_kill_the_answer_is_right(rig):
    model = ForgetfulModel()
    with served(model) as url, trio.fail_after(LIMIT_S):
        (rig.home / "config.toml").write_text(
            'model = "m"\nmodel_provider = "b"\n'
            "model_context_window = 30000\nmodel_auto_compact_token_limit = 18000\n"
            f'[model_providers.b]\nname = "b"\nbase_url = "{url}"\n'
        )
        run = await rig.run("b")
        await step(rig, 60)
        await succeeds(rig, "send", rig.run_id, "/root", "And say BLUE at the end.")
        await step(rig, 100)
        await succeeds(rig, "interrupt", rig.run_id, "/root")
        await succeeds(rig, "send", rig.run_id, "/root", "Go on.")
        await step(rig, 170)
        await succeeds(rig, "interrupt", rig.run_id, "/root")
        await succeeds(rig, "end", rig.run_id)
        assert (await run.wait_end()).code == 130
        run = await rig.resume("-p", "Go on.")
        await step(rig, 240)
        run.process.send_signal(signal.SIGKILL)
        await run.wait_end()
        ended = await (await rig.resume()).wait_end()
    assert (ended.code, ended.out.strip()) == (0, f"{STEPS} steps, BLUE")
    steps = (rig.work / "ledger").read_text().split()
    assert len(steps) == len(set(steps)), "no step was done twice"
    assert len(steps) >= STEPS - 3, "one may be cut off by each interrupt and by the kill"
    begun = [re.findall(r"echo (\d+) >>", call.detail.script)[0] for call in rig.bodies(CallBegan)]
    assert len(begun) == len(set(begun)), "no call began twice"
    assert set(steps) <= set(begun), "nothing was done that was not told before"
    assert len(rig.bodies(TurnAborted)) == 2
    compactions = [one for one in rig.bodies(ContextRecorded) if one.shortened is not None]
    assert len(compactions) >= 5
    broken = sum(not input_of(b).startswith(input_of(a)) for a, b in pairwise(model.bodies))
    assert len(compactions) <= broken <= len(compactions) + 2, "one more where one was cut off"
