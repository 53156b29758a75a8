"""The vigil: who does not beat is dead, who beats but does not move is reported.

Law 4: no heartbeat for 10 s is death; no progress for 5 minutes is said aloud.
"""

import trio

from swarm.mailbox.protocol.events import Warned

from .control import Control
from .keeper import Keeper
from .running import Running

_ROUND_S = 1.0
_SILENT_S = 10.0
_STUCK_S = 300.0


async def keep_vigil(running: Running, control: Control, keeper: Keeper) -> None:
    """Look at every agent once a second, until cancelled.

    When this process itself was held up (a suspended machine), silence proves nothing: everybody
    gets a fresh start.
    """
    last_round = trio.current_time()
    while True:
        await trio.sleep(_ROUND_S)
        now = trio.current_time()
        was_held_up = now - last_round > _ROUND_S + 2
        last_round = now
        if was_held_up:
            keeper.last_beat = now
        else:
            keeper.strike_if_silent()
            keeper.strike_if_unreachable()
        for agent in list(control.agents.values()):
            if was_held_up:
                agent.last_beat = now
            if not agent.hello.is_set() or agent.gone.is_set():
                continue
            if now - agent.last_beat > _SILENT_S:
                control.strike(agent, f"it sent no heartbeat for {_SILENT_S:g} s")
            elif agent.asking or agent.paused:
                agent.progress_at = now  # it waits for a person; that is no fault of its own
            elif agent.busy and now - agent.progress_at > _STUCK_S and not agent.reported_stuck:
                agent.reported_stuck = True
                running.note(
                    Warned(message=f"{agent.path} lives but has made no progress for 5 minutes"),
                    agent=agent.path,
                    file=agent.plan.agent_id,
                )
