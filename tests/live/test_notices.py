"""Real runs that tell a person something, to servers on loopback: once, whatever happens."""

import json
import os
import shutil
import signal
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from swarm.mailbox.parts.notices.notice_messages import NoticeBegan, NoticeEnded
from swarm.mailbox.protocol.records import ItemRecorded

from .conftest import Rig

pytestmark = pytest.mark.live
LIMIT_S = 90


class Posted(NamedTuple):
    path: str
    headers: dict[str, str]
    body: str


class SinkServer:
    """Takes posts; with `holds` set it answers none until the server is closed."""

    def __init__(self) -> None:
        self.posted: list[Posted] = []
        self.holds = False
        self.status = 200
        self._released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.posted.append(Posted(self.path, dict(self.headers), body))
                if outer.holds:
                    outer._released.wait(LIMIT_S)
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server():
    made = SinkServer()
    yield made
    made.close()


def configure(rig: Rig, text: str) -> None:
    (rig.home / "config.toml").write_text(f"[notify]\n{text}\n")


def tell(text: str, urgency: str = "normal") -> dict[str, object]:
    return {"name": "tell_person", "arguments": {"text": text, "urgency": urgency}}


def copied(tool: Path, folder: Path) -> Path:
    return Path(shutil.copy(tool, folder))


async def run_to_end(rig: Rig, *turns: dict[str, object], words: tuple[str, ...] = ()):
    done = await (await rig.run(rig.script(*turns), *words)).wait_end()
    assert done.code == 0, done.err
    return done


async def test_ntfy_and_a_webhook_get_the_text_and_the_runs_name_and_nothing_else(
    rig: Rig, server: SinkServer
) -> None:
    rig.environment["NTFY_TOKEN"] = "tk_abcdefghijklmnop"
    configure(
        rig,
        f'ntfy = "{server.address}/topic"\nntfy_token_env = "NTFY_TOKEN"\n'
        f'webhook = "{server.address}/hook"\nabout = ["agents"]',
    )
    env = {"name": "exec_command", "arguments": {"cmd": "env; true"}}
    with trio.fail_after(LIMIT_S):
        await run_to_end(rig, {"calls": [tell("the build is ready", "high"), env]}, {"text": "ok"})
    found = {one.path: one for one in server.posted}
    assert set(found) == {"/topic", "/hook"}
    assert len(server.posted) == 2
    topic, hook = found["/topic"], json.loads(found["/hook"].body)
    assert (topic.body, topic.headers["Priority"]) == ("the build is ready", "5")
    assert topic.headers["Authorization"] == "Bearer tk_abcdefghijklmnop"
    short = rig.run_id[-8:] if rig.run_id[-8:] in topic.headers["Title"] else rig.run_id[:8]
    assert hook.pop("run") in topic.headers["Title"]
    assert short
    assert len(hook.pop("id")) > 8
    assert hook == {
        "type": "notice", "kind": "agent", "urgency": "high", "text": "the build is ready",
    }  # fmt: skip
    assert "tk_abcdefghijklmnop" not in str(rig.bodies(ItemRecorded))


async def test_a_notice_that_a_crash_cut_off_is_never_sent_again(
    rig: Rig, server: SinkServer
) -> None:
    configure(rig, f'webhook = "{server.address}/hook"\nabout = ["agents"]')
    server.holds = True
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script({"calls": [tell("once")]}, {"text": "ok"}))
        await rig.wait(lambda: server.posted)
        os.kill(started.pid, signal.SIGKILL)
        await rig.wait_gone()
        done = await (await rig.resume()).wait_end()
    assert done.code == 0, done.err
    assert len(server.posted) == 1
    assert len(rig.bodies(NoticeBegan)) == 1
    assert rig.bodies(NoticeEnded) == []


async def test_a_redirect_is_not_followed_and_a_failure_is_journaled(
    rig: Rig, server: SinkServer
) -> None:
    configure(rig, f'webhook = "{server.address}/hook"\nabout = ["agents"]')
    server.status = 307
    with trio.fail_after(LIMIT_S):
        await run_to_end(rig, {"calls": [tell("go")]}, {"text": "ok"})
    assert [one.path for one in server.posted] == ["/hook"]
    assert [one.failed for one in rig.bodies(NoticeEnded)] == [
        {"webhook": "the server answered 307"}
    ]


async def test_the_end_of_a_run_is_told_once_by_its_status_alone(
    rig: Rig, server: SinkServer
) -> None:
    configure(rig, f'webhook = "{server.address}/hook"\nabout = ["end"]')
    with trio.fail_after(LIMIT_S):
        await run_to_end(rig, {"text": "the secret plan"})
        again = await (await rig.resume()).wait_end()
    assert again.code == 0
    (posted,) = server.posted
    assert json.loads(posted.body)["text"] == "the run has ended: completed"
    assert "secret plan" not in posted.body


async def test_too_long_and_too_many_notices_are_refused_and_secrets_are_taken_out(
    rig: Rig, server: SinkServer
) -> None:
    configure(rig, f'webhook = "{server.address}/hook"\nabout = ["agents"]')
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    calls = [tell("x" * 201), tell(f"key {secret}"), *(tell(f"number {n}") for n in range(5))]
    turns = [{"calls": [one]} for one in calls]
    with trio.fail_after(LIMIT_S):
        await run_to_end(rig, *turns, {"text": "ok"})
    texts = [json.loads(one.body)["text"] for one in server.posted]
    assert len(texts) == 5
    assert secret not in str(texts)
    items = str(rig.bodies(ItemRecorded))
    assert "this one has 201" in items
    assert "5 notices in 10 minutes are the most" in items


async def test_a_command_gets_json_and_one_in_the_project_is_not_started(rig: Rig) -> None:
    tool = rig.folder / "tell.sh"
    tool.write_text('#!/bin/sh\nprintf %s "$1" > "$HOME/told"\n')
    tool.chmod(0o755)
    configure(rig, f'command = ["{tool}"]\nabout = ["agents"]')
    with trio.fail_after(LIMIT_S):
        where = ("-s", "workspace-write")
        await run_to_end(rig, {"calls": [tell("hello")]}, {"text": "ok"}, words=where)
        assert json.loads((rig.home / "told").read_text())["text"] == "hello"
        rig.forget_run()
        (rig.home / "told").unlink()
        inside = copied(tool, rig.work)
        configure(rig, f'command = ["{inside}"]\nabout = ["agents"]')
        await run_to_end(rig, {"calls": [tell("hello")]}, {"text": "ok"}, words=where)
    assert not (rig.home / "told").exists()
    assert "not started" in rig.bodies(NoticeEnded)[0].failed["command"]


async def test_without_a_sink_no_agent_has_the_tool(rig: Rig) -> None:
    with trio.fail_after(LIMIT_S):
        await run_to_end(rig, {"calls": [tell("anybody?")]}, {"text": "ok"})
    assert rig.bodies(NoticeBegan) == []
