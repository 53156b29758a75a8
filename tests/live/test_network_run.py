"""Whole runs whose commands reach the network through the proxy, or do not."""

import os
import shutil
import signal

import pytest
import trio

from support.proxy_testbed import serving
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import AgentSpawned, ApprovalRequested, ApprovalResolved

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]
LIMIT_S = 40
LOCAL = ("-c", "network.enabled=true", "-c", "network.allow_local_binding=true")
ASKS = (*LOCAL, "--reviewer", "person")


def fetches(port, *, before=""):
    script = f"{before}curl -sS -m 20 --noproxy '' http://127.0.0.1:{port}/ 2>&1"
    return {"name": "exec_command", "arguments": {"cmd": script, "yield_time_ms": 30_000}}


async def run(rig, *turns, words=()):
    return await rig.run(rig.script(*turns), *words, sandbox="workspace-write")


async def test_a_domain_named_on_the_command_line_is_reached_and_others_are_not(rig):
    with trio.fail_after(LIMIT_S), serving() as server:
        port = server.server_address[1]
        turns = [{"calls": [fetches(port)]}, {"calls": [fetches(80)]}, {"text": "{last_output}"}]
        turns[1]["calls"][0]["arguments"]["cmd"] = "curl -sS http://elsewhere.test/"
        ended = await (
            await run(rig, *turns, words=("--allow-domain", "127.0.0.1:*", "-a", "never"))
        ).wait_end()
        alive = rig.alive()
    assert ended.code == 0, ended.err
    reached, refused = rig.outputs()
    assert f"GET / host=127.0.0.1:{port}" in reached
    assert "Domain not in allowlist." in refused
    assert (
        'Network access to "elsewhere.test" was blocked: domain is not on the allowlist for the '
        "current sandbox mode."
    ) in refused
    (warning,) = rig.bodies(Warned, agent="/root")
    assert warning.message == (
        "network access to http://elsewhere.test:80 was blocked (not_allowed)"
    )
    assert alive == {}


async def test_a_run_without_a_network_policy_has_no_proxy(rig):
    with trio.fail_after(LIMIT_S):
        started = await run(rig, {"calls": [fetches(80, before="sleep 1;")]}, {"text": "done"})
        await rig.wait_call()
        titles = list(rig.alive().values())
        await started.wait_end()
    assert titles
    assert not [title for title in titles if "network proxy" in title]
    assert "Network access" not in rig.outputs()[0]


async def test_a_person_is_asked_once_for_two_commands_and_both_go_on(rig):
    with trio.fail_after(LIMIT_S), serving() as server:
        port = server.server_address[1]
        started = await run(
            rig, {"calls": [fetches(port), fetches(port)]}, {"text": "done"}, words=ASKS
        )
        (asked,) = await rig.wait(lambda: rig.bodies(ApprovalRequested))
        told = await (await rig.start("approve", asked.approval_id, "--session")).wait_end()
        assert told.code == 0, told.err
        ended = await started.wait_end()
    assert ended.code == 0
    assert len(rig.bodies(ApprovalRequested)) == 1
    assert all(f"GET / host=127.0.0.1:{port}" in output for output in rig.outputs())
    action = asked.request.action
    assert (action.host, action.port, action.protocol) == ("127.0.0.1", port, "http")
    assert "curl" in action.trigger


async def test_a_no_reaches_the_model_with_its_reason(rig):
    with trio.fail_after(LIMIT_S), serving() as server:
        started = await run(
            rig, {"calls": [fetches(server.server_address[1])]}, {"text": "done"}, words=ASKS
        )
        (asked,) = await rig.wait(lambda: rig.bodies(ApprovalRequested))
        await (await rig.start("deny", asked.approval_id)).wait_end()
        assert (await started.wait_end()).code == 0
        assert server.received == []
    port = server.server_address[1]
    assert f'Network access to "127.0.0.1:{port}" was blocked' in rig.outputs()[0]


async def test_a_question_is_withdrawn_when_its_command_ends(rig):
    turns = [{"calls": [fetches(9)]}, {"text": "done"}]
    turns[0]["calls"][0]["arguments"]["cmd"] = "curl -sS -m 1 --noproxy '' http://127.0.0.1:9/ 2>&1"
    with trio.fail_after(LIMIT_S):
        ended = await (await run(rig, *turns, words=ASKS)).wait_end()
    assert ended.code == 0
    assert len(rig.bodies(ApprovalRequested)) == 1
    assert all(one.outcome != "approved" for one in rig.bodies(ApprovalResolved))


async def test_a_killed_proxy_is_replaced_and_later_commands_reach_the_network(rig):
    with trio.fail_after(LIMIT_S), serving() as server:
        port = server.server_address[1]
        waits = (
            f"curl -sS -o /dev/null --noproxy '' http://127.0.0.1:{port}/; touch began; "
            "until test -e go; do sleep 0.05; done; "
        )
        turns = [
            {"calls": [fetches(port, before=waits)]},
            {"calls": [fetches(port)]},
            {"text": "done"},
        ]
        started = await run(rig, *turns, words=("--allow-domain", "127.0.0.1:*"))
        await rig.wait((rig.work / "began").exists)

        def proxies():
            return [pid for pid, name in rig.alive().items() if "network proxy" in name]

        (old,) = await rig.wait(proxies)
        os.kill(old, signal.SIGKILL)
        await rig.wait(lambda: [pid for pid in proxies() if pid != old])
        (rig.work / "go").touch()
        ended = await started.wait_end()
        await rig.wait_gone()
    assert ended.code == 0
    cut, reached = rig.outputs()
    assert "GET /" not in cut
    assert f"GET / host=127.0.0.1:{port}" in reached
    assert len(rig.bodies(AgentSpawned)) == 1
    assert any("started again" in one.message for one in rig.bodies(Warned))


async def test_the_proxy_ends_with_its_supervisor(rig):
    with trio.fail_after(LIMIT_S):
        turns = [{"calls": [fetches(9, before="sleep 60;")]}]
        started = await run(rig, *turns, words=("--allow-domain", "127.0.0.1:*"))
        await rig.wait_call()
        await rig.wait(lambda: [name for name in rig.alive().values() if "network proxy" in name])
        os.kill(started.pid, signal.SIGKILL)
        await started.process.wait()
        await rig.wait_gone()


async def test_a_child_of_a_reading_role_has_no_way_to_the_network(rig):
    with trio.fail_after(LIMIT_S), serving() as server:
        port = server.server_address[1]
        spawn = {
            "name": "spawn_agent",
            "arguments": {"task_name": "a", "message": "go", "agent_type": "explorer"},
        }
        wait = {"name": "wait_agent", "arguments": {"targets": ["a"], "timeout_ms": 20_000}}
        turns = [
            {"agent": "/root", "calls": [spawn]},
            {"agent": "/root", "calls": [wait]},
            {"agent": "/root", "text": "done"},
            {"agent": "/root/a", "calls": [fetches(port)]},
            {"agent": "/root/a", "text": "none"},
        ]
        ended = await (await run(rig, *turns, words=("--allow-domain", "127.0.0.1:*"))).wait_end()
        assert server.received == []
    assert ended.code == 0, ended.err
    assert [one.limits.network for one in rig.lives("/root/a")] == [None]
    assert rig.lives("/root")[0].limits.network is not None
    assert rig.outputs("/root/a")


async def test_a_locked_role_that_names_hosts_reaches_these_and_no_more(rig):
    (rig.home / "agents").mkdir()
    (rig.home / "agents/reader.toml").write_text(
        'name = "reader"\ndescription = "reads"\ndeveloper_instructions = "Read."\n'
        'sandbox_mode = "read-only"\n'
        '[network]\nenabled = true\ndomains = { "127.0.0.1:*" = "allow", "b.test" = "allow" }\n'
    )
    with trio.fail_after(LIMIT_S), serving() as server:
        port = server.server_address[1]
        other = fetches(port)
        other["arguments"]["cmd"] = "curl -sS http://b.test/; test -t 0 && curl -sS http://c.test/"
        other["arguments"]["tty"] = True
        words = ("--role", "reader", "--allow-domain", "127.0.0.1:*", "--allow-domain", "c.test")
        ended = await (
            await run(
                rig, {"calls": [fetches(port)]}, {"calls": [other]}, {"text": "done"},
                words=(*words, "-a", "never"),
            )
        ).wait_end()  # fmt: skip
    assert ended.code == 0, ended.err
    reached, refused = rig.outputs()
    assert f"GET / host=127.0.0.1:{port}" in reached
    assert refused.count("was blocked") == 2
    assert rig.lives()[0].limits.network.allow == ("127.0.0.1:*",)
