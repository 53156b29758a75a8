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


_EXTRACTED = {
    "title": "Fix the code", "summary": "It was fixed.",
    "facts": [{"kind": "finding", "text": "The code is one text file.", "place": "code.txt",
               "quote": ""}],
}  # fmt: skip
_KEY = "key-of-the-person-0123456789"


class _Server(ThreadingHTTPServer):
    asked_with: list[str]
    asked: threading.Event


class _Model(BaseHTTPRequestHandler):
    """Chat completions, streamed: the next command of its habit, then an answer."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        messages = json.loads(body)["messages"]
        is_told = _TOLD in json.dumps(messages)
        if "You turn one finished run" in json.dumps(messages):
            assert isinstance(self.server, _Server)
            self.server.asked_with.append(self.headers["authorization"])
            self.server.asked.set()
            self._send({"role": "assistant", "content": json.dumps(_EXTRACTED)}, "stop", len(body))
            return
        plan = _FIX if is_told else [*_SEARCH, *_FIX]
        done = sum(one["role"] == "tool" for one in messages)
        if done < len(plan):
            arguments = json.dumps({"cmd": plan[done]})
            call = {"index": 0, "id": f"c{done}", "type": "function",
                    "function": {"name": "exec_command", "arguments": arguments}}  # fmt: skip
            self._send({"role": "assistant", "tool_calls": [call]}, "tool_calls", len(body))
        else:
            self._send({"role": "assistant", "content": "Fixed."}, "stop", len(body))

    def _send(self, delta: dict[str, object], reason: str, size: int) -> None:
        usage = {"prompt_tokens": size // 4, "completion_tokens": 20,
                 "total_tokens": size // 4 + 20}  # fmt: skip
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
def model_server() -> Iterator[tuple[str, _Server]]:
    """Its address, and the server, which says with which keys it was asked for memories."""
    server = _Server(("127.0.0.1", 0), _Model)
    server.asked_with, server.asked = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def prepare(rig) -> None:
    (rig.work / "run_tests.sh").write_text("#!/bin/sh\ngrep -q right code.txt\n")
    (rig.work / "run_tests.sh").chmod(0o755)
    (rig.work / "README.md").write_text("A project.\n" * 40)
    (rig.work / "scripts").mkdir()
    (rig.work / "scripts/deploy").write_text("")
    (rig.work / "code.txt").write_text("wrong\n")
    make_repository(rig.work)


async def test_the_second_time_takes_thirty_percent_fewer_tokens_and_calls(rig):
    prepare(rig)
    with model_server() as (url, _), trio.fail_after(LIMIT_S):
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


async def test_the_job_asks_the_runs_own_model_with_its_key_and_shows_the_key_nowhere(rig):
    prepare(rig)
    rig.environment["HABIT_KEY"] = _KEY
    with model_server() as (url, server), trio.fail_after(LIMIT_S):
        (rig.home / "config.toml").write_text(
            f'memories = true\n[model_providers.habit]\nname = "habit"\nbase_url = "{url}"\n'
            f'wire_api = "chat"\nenv_key = "HABIT_KEY"\n'
        )
        words = ("--provider", "habit", "-m", "m", "-s", "workspace-write", "--plain")
        ended = await (await rig.start("run", "-p", "Fix the code.", *words)).wait_end()
        assert ended.code == 0, ended.err
        await trio.to_thread.run_sync(server.asked.wait, 30)  # by the job that the run started
        await swarm(rig, "memory", "run")
        listed = await swarm(rig, "memory", "list")
        assert "The code is one text file. (code.txt)" in listed
        assert server.asked_with == [f"Bearer {_KEY}"]
        assert "tokens" in (rig.home / "state/memories/job.log").read_text()
        files = [path for path in (rig.home / "state").rglob("*") if path.is_file()]
        assert not [path for path in files if _KEY.encode() in path.read_bytes()]
