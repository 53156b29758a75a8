"""Supervisors of tests: `python -P supervisor_programs.py STORY [ARGUMENT …]` prints facts as JSON.

A process of its own, because a supervisor becomes a subreaper, may not be dumped, and kills all
that descends from it. `tests` is in its PYTHONPATH.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import trio

from support import child_programs
from support.child_programs import agent_spec, gateway_spec
from swarm.mailbox.base.key_wiping import take_keys
from swarm.mailbox.base.process_tree import children_of
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.supervisor.processes import process_manager
from swarm.supervisor.processes.child_loop import stop_child
from swarm.supervisor.processes.early_start import EarlyProcesses, start_early
from swarm.supervisor.processes.process_manager import ProcessManager, open_process_manager
from swarm.supervisor.processes.process_types import SpawnError, StartInterrupted

COLD = msgspec.structs.replace(
    child_programs.PROGRAMS,
    forkserver="support.child_programs:end_server",
    cold_forkserver=("-c", "raise SystemExit(7)"),
)


async def wait_until(holds: Callable[[], bool]) -> None:
    """For what only the system knows; the test outside sets the limit."""
    while not holds():  # noqa: ASYNC110 (there is no event for it)
        await trio.sleep(0.005)


async def server_pid(manager: ProcessManager, *, but: int = 0) -> int:
    """Wait for a fork-server that takes orders."""
    await wait_until(lambda: manager.server_pid not in (None, but))
    return manager.server_pid or 0


async def wait_said(child: Any, text: str) -> None:
    await wait_until(lambda: text in child._stderr.text)


def living_daemons(token: str) -> list[int]:
    return [pid for pid in child_programs.holders(token) if "sh -c" in child_programs.cmdline(pid)]


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


async def ends(early: EarlyProcesses, token: str) -> object:
    """How five children end, and what they said."""
    facts = {}
    async with open_process_manager(early, grace_s=0.5) as manager:
        await server_pid(manager)
        for role in ("leave_with_three", "crash", "talk_much", "crash_with_daemon"):
            child = await manager.start(agent_spec(role, token=token), title=role)
            facts[role] = msgspec.to_builtins(await child.wait_ended()) | {"warm": child.warm}
        facts["left"] = living_daemons(token)
    return facts


async def graceful_stops(early: EarlyProcesses, token: str) -> object:
    """A child that ignores SIGTERM, and one that obeys."""
    async with open_process_manager(early, grace_s=0.5) as manager:
        await server_pid(manager)
        stubborn = await manager.start(agent_spec("ignore_term"), title="stubborn")
        await wait_said(stubborn, "up")
        obedient = await manager.start(agent_spec("sleep_long"), title="obedient")
        await wait_said(obedient, "up")
        daemon = await manager.start(agent_spec("with_daemon", token=token), title="daemon")
        await wait_said(daemon, "up")
        ends = [
            await stop_child(stubborn, None, grace_s=0.2),
            await stop_child(obedient, None, grace_s=5),
            await stop_child(daemon, trio.sleep_forever, grace_s=0),
        ]
        again = await stop_child(stubborn, None, grace_s=5)
        left = living_daemons(token)
    return {"signals": [end.signal for end in ends], "again": again == ends[0], "left": left}


async def adoption(early: EarlyProcesses, token: str) -> object:
    """Kill the fork-server under three agents: they live on, ends are still learnt."""
    async with open_process_manager(early, grace_s=0.5) as manager:
        old = await server_pid(manager)
        daemon = await manager.start(agent_spec("with_daemon", token=token), title="daemon")
        await wait_said(daemon, "up")
        sleeper: Any = await manager.start(agent_spec("sleep_long"), title="sleeper")
        os.kill(old, signal.SIGKILL)
        new = await server_pid(manager, but=old)
        adopted = sleeper.pid in children_of(os.getpid())
        late = await manager.start(agent_spec("leave_with_three"), title="late")
        end = await late.wait_ended()
        os.kill(sleeper.pid, signal.SIGTERM)
        sleeper_end = await sleeper.wait_ended()
        os.kill(daemon.pid, signal.SIGKILL)
        daemon_end = await daemon.wait_ended()
        await wait_until(lambda: not living_daemons(token))
    return {
        "adopted": adopted,
        "new": new != old,
        "late_warm": late.warm,
        "late": end.exit_code,
        "sleeper": sleeper_end.signal,
        "daemon": daemon_end.signal,
        "children": children_of(os.getpid()),
    }


async def no_server(early: EarlyProcesses, token: str) -> object:
    """A fork-server that always dies: after a few, every start is cold and works."""
    async with open_process_manager(early, grace_s=0.5) as manager:
        child = await manager.start(agent_spec("leave_with_three"), title="cold")
        end = await child.wait_ended()
        daemon = await manager.start(agent_spec("with_daemon", token=token), title="daemon")
        await wait_said(daemon, "up")
    left = living_daemons(token)
    return {"warm": child.warm, "code": end.exit_code, "left": left}


async def silent_server(early: EarlyProcesses, token: str) -> object:
    """A stopped fork-server: it is replaced, its agent lives on, and another start works."""
    process_manager.START_LIMIT_S = 0.2
    async with open_process_manager(early, grace_s=0.5) as manager:
        old = await server_pid(manager)
        sleeper: Any = await manager.start(agent_spec("sleep_long"), title="sleeper")
        os.kill(old, signal.SIGSTOP)
        lost = await is_lost(manager, agent_spec("sleep_long"))
        child = await manager.start(agent_spec("leave_with_three"), title="another")
        end = await child.wait_ended()
        new = await server_pid(manager, but=old)
        lives = sleeper.is_alive
    return {"lost": lost, "code": end.exit_code, "new": new != old, "lives": lives}


async def dying_server(early: EarlyProcesses, token: str) -> object:
    """A fork-server that dies between a fork and its report: the child may not live on."""
    async with open_process_manager(early, grace_s=0.5) as manager:
        old = await server_pid(manager)
        lost = await is_lost(
            manager, agent_spec("with_daemon", token=token), title=child_programs.FATAL
        )
        left = living_daemons(token)
        child = await manager.start(agent_spec("leave_with_three"), title="another")
        end = await child.wait_ended()
        new = await server_pid(manager, but=old)
    return {"lost": lost, "left": left, "code": end.exit_code, "new": new != old}


async def is_lost(manager: ProcessManager, spec: AgentSpec, *, title: str = "lost") -> bool:
    try:
        await manager.start(spec, title=title)
    except StartInterrupted:
        return True
    return False


async def fds(early: EarlyProcesses, token: str) -> object:
    """Fifty children, one after the other."""
    async with open_process_manager(early, grace_s=0.5) as manager:
        await server_pid(manager)
        child = await manager.start(agent_spec("leave_with_three"), title="warm-up")
        await child.wait_ended()
        before, server = open_fds(), await server_pid(manager)
        of_server = fds_of(server)
        for _ in range(50):
            child = await manager.start(agent_spec("leave_with_three"), title="one")
            await child.wait_ended()
        return {
            "ours": open_fds() - before,
            "servers": fds_of(server) - of_server,
        }


def fds_of(pid: int) -> int:
    """How many it has. Nobody but root may count those of a process that keeps keys: 0."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        assert os.geteuid() != 0
        return 0


async def cancelled(early: EarlyProcesses, token: str) -> object:
    """A block that is cancelled from outside, with stubborn children."""
    with trio.CancelScope() as scope:
        async with open_process_manager(early, grace_s=0.2) as manager:
            await server_pid(manager)
            child = await manager.start(agent_spec("ignore_term"), title="stubborn")
            await wait_said(child, "up")
            scope.cancel()
            await trio.sleep_forever()
    end = await child.wait_ended()
    refused = ""
    try:
        await manager.start(agent_spec("leave_with_three"), title="late")
    except SpawnError as error:
        refused = str(error)
    return {"signal": end.signal, "refused": refused, "children": children_of(os.getpid())}


async def keys(early: EarlyProcesses, token: str) -> object:
    """The keys reach the gateway and are nowhere else to be seen."""
    async with open_process_manager(early, grace_s=0.5) as manager:
        gateway = await manager.start(
            gateway_spec(), title="gateway", keys={"STORY_API_KEY": token}
        )
        await wait_said(gateway, "got STORY_API_KEY")
        await server_pid(manager)
        agent = await manager.start(agent_spec("sleep_long"), title="agent")
        await wait_said(agent, "up")
        server = await server_pid(manager)
        others = {"agent": agent.pid, "server": server}
        every = {"us": os.getpid(), "gateway": gateway.pid, **others}
        return {
            "shown": [name for name, pid in every.items() if shows(pid, token)],
            "remembered": [name for name, pid in others.items() if remembers(pid, token)],
            "gateway_knows": remembers(gateway.pid, token),
        }


async def keys_taken_later(early: EarlyProcesses, token: str) -> object:
    """The two were forked while the key was still in the environment, and were told."""
    return await keys(early, token)


def shows(pid: int, token: str) -> bool:
    """True if /proc shows the token to whoever may read it."""
    texts = (readable(Path(f"/proc/{pid}/{name}")) for name in ("environ", "cmdline"))
    return any(token.encode() in text for text in texts)


def readable(path: Path) -> bytes:
    """What we may read of it: nothing of a process that only root may look at."""
    try:
        return path.read_bytes()
    except PermissionError:
        assert os.geteuid() != 0
        return b""


def remembers(pid: int, token: str) -> bool:
    """True if the token lies anywhere in the process's writable memory."""
    maps = readable(Path(f"/proc/{pid}/maps")).decode().splitlines()
    if not maps:
        return False  # its memory is closed to us: that is the promise itself
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            memory.seek(start)
            if token.encode() in memory.read(end - start):
                return True
    return False


async def supervise(early: EarlyProcesses, token: str) -> object:
    """A whole run that waits to be killed; says who is in it."""
    how = sys.argv[3:]
    async with open_process_manager(early) as manager:
        gateway = await manager.start(gateway_spec(), title="gateway", keys={})
        await wait_said(gateway, "got")
        await server_pid(manager)
        agents = []
        for role in ("with_daemon", "sleep_long", "ignore_term", "busy"):
            agents.append(await manager.start(agent_spec(role, token=token), title=role))
            await wait_said(agents[-1], "up")
        if "no-server" in how:
            old = await server_pid(manager)
            os.kill(old, signal.SIGKILL)
            await wait_until(lambda: manager.server_pid is None)
        elif "new-server" in how:
            old = await server_pid(manager)
            os.kill(old, signal.SIGKILL)
            await server_pid(manager, but=old)
            await manager.start(agent_spec("leave_with_three"), title="now it is ready")
        pids = [agent.pid for agent in agents] + [gateway.pid]
        pids += [manager.server_pid] if manager.server_pid else []
        if "stopped" in how:
            for pid in pids:
                os.killpg(pid, signal.SIGSTOP)
        print(msgspec.json.encode(pids).decode(), flush=True)
        await trio.sleep_forever()


SCENARIOS = (
    ends,
    graceful_stops,
    adoption,
    no_server,
    silent_server,
    dying_server,
    fds,
    cancelled,
    keys,
    keys_taken_later,
    supervise,
)


def main() -> None:
    scenario = {act.__name__: act for act in SCENARIOS}[sys.argv[1]]
    programs = COLD if scenario is no_server else child_programs.PROGRAMS
    early = start_early(programs) if scenario is keys_taken_later else None
    taken = take_keys(os.environ, ("STORY_API_KEY",))
    token = taken.get("STORY_API_KEY") or sys.argv[2]
    early = early or start_early(programs, secrets=taken.values())
    early.complete()
    facts = trio.run(scenario, early, token)
    early.close()
    print(msgspec.json.encode(facts).decode())


if __name__ == "__main__":
    main()
