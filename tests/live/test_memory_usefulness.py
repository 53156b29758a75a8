"""What memories save: one model of fixed habits does the same kind of task twice.

The model looks for how the tests run unless it was told; its server counts tokens by the bytes of
each request.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trio

from support.copied_agents import LIMIT_S, make_repository, swarm
from swarm.mailbox.protocol.events import CallBegan
from swarm.mailbox.protocol.records import RunCompleted

pytestmark = pytest.mark.live
_TOLD = "`./run_tests.sh` runs the tests and succeeded."
_FIX = ["sed -i s/wrong/right/ code.txt", "./run_tests.sh"]
_SEARCH = ["ls", "cat README.md", "pytest -q", "ls scripts", "cat run_tests.sh"]


class _Model(BaseHTTPRequestHandler):
    """Chat completions, streamed: the next command of its habit, then an answer."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        messages = json.loads(body)["messages"]
        is_told = _TOLD in json.dumps(messages)
        plan = _FIX if is_told else [*_SEARCH, *_FIX]
        done = sum(one["role"] == "tool" for one in messages)
        usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 20,
                 "total_tokens": len(body) // 4 + 20}  # fmt: skip
        if done < len(plan):
            arguments = json.dumps({"cmd": plan[done]})
            call = {"index": 0, "id": f"c{done}", "type": "function",
                    "function": {"name": "exec_command", "arguments": arguments}}  # fmt: skip
            delta, reason = {"role": "assistant", "tool_calls": [call]}, "tool_calls"
        else:
            delta, reason = {"role": "assistant", "content": "Fixed."}, "stop"
        chunks = [
            {"choices": [{"index": 0, "delta": delta}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        lines = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(lines)))
        self.end_headers()
        self.wfile.write(lines.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def model_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_the_second_time_takes_thirty_percent_fewer_tokens_and_calls(rig):
    (rig.work / "run_tests.sh").write_text("#!/bin/sh\ngrep -q right code.txt\n")
    (rig.work / "run_tests.sh").chmod(0o755)
    (rig.work / "README.md").write_text("A project.\n" * 40)
    (rig.work / "scripts").mkdir()
    (rig.work / "scripts/deploy").write_text("")
    (rig.work / "code.txt").write_text("wrong\n")
    make_repository(rig.work)
    with model_server() as url, trio.fail_after(LIMIT_S):
        (rig.home / "config.toml").write_text(
            f'[memories]\nenabled = true\nmethod = "facts"\n[model_providers.habit]\n'
            f'name = "habit"\nbase_url = "{url}"\nwire_api = "chat"\n'
        )
        spent: list[tuple[int, int]] = []
        for _ in range(2):
            (rig.work / "code.txt").write_text("wrong\n")
            words = ("--provider", "habit", "-m", "m", "-s", "workspace-write", "--plain")
            ended = await (await rig.start("run", "-p", "Fix the code.", *words)).wait_end()
            assert ended.code == 0, ended.err
            assert (rig.work / "code.txt").read_text() == "right\n"
            (completed,) = rig.bodies(RunCompleted)
            spent.append((completed.usage.total_tokens, len(rig.bodies(CallBegan))))
            await swarm(rig, "memory", "run")
            rig.forget_run()
    (tokens, calls), (later_tokens, later_calls) = spent
    print(f"tokens {tokens} then {later_tokens}, calls {calls} then {later_calls}")
    assert later_tokens <= 0.7 * tokens
    assert later_calls <= 0.7 * calls
