"""Heartbeat monitor: kills silent processes, reports agents that make no progress.

An agent that sent no heartbeat for 10 s (45 s on another machine) is killed. One that is busy
without progress for 5 minutes gets a warning.
"""

from collections.abc import Iterable

import trio

from swarm.mailbox.protocol.events import Warned

from ...context.run_context import RunContext
from ...context.service_process import Service
from .agent_manager import AgentManager

_POLL_S = 1.0
_IDLE_POLL_S = 5.0  # while no agent has a process: a run that waits costs next to nothing
_HEARTBEAT_TIMEOUT_S = 10.0
_REMOTE_TIMEOUT_S = 45.0  # a lost link is a delay first; then its machine is lost, after 30 s
_STUCK_S = 300.0


async def monitor_heartbeats(
    running: RunContext, agents: AgentManager, services: Iterable[Service]
) -> None:
    """Check every service and agent once a second, more seldom without agents; until cancelled.

    If this process itself was held up (a suspended machine), silence proves nothing: then all
    heartbeat clocks are reset.
    """
    last_round = trio.current_time()
    while True:
        pause_s = _POLL_S if running.agents.live else _IDLE_POLL_S
        await trio.sleep(pause_s)
        now = trio.current_time()
        was_held_up = now - last_round > pause_s + 2
        last_round = now
        for service in services:
            if was_held_up:
                service.process.note_heartbeat()
            else:
                service.check_alive()
        for agent in list(running.agents.live.values()):
            process = agent.process
            if was_held_up:
                process.note_heartbeat(now)
            if not process.hello.is_set():
                continue
            limit_s = _REMOTE_TIMEOUT_S if agent.plan.host else _HEARTBEAT_TIMEOUT_S
            if now - process.last_heartbeat > limit_s:
                agents.kill_for_restart(agent, f"it sent no heartbeat for {limit_s:g} s")
            elif agent.open_questions or running.agents.is_paused(agent):
                process.note_progress(now)  # it waits for a person, which is no fault of its own
            elif process.report_stuck(since=now - _STUCK_S):
                running.note(
                    Warned(
                        message=f"{agent.path} is alive, but has made no progress for 5 minutes"
                    ),
                    agent=agent.path,
                    file=agent.plan.agent_id,
                )
