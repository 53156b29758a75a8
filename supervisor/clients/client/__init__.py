"""Python client of a run: start one or attach to it, read its events, steer it, take its result.

Works under asyncio and Trio. It uses the run's control socket, its event feed and its journal, as
`swarm watch` and `swarm send` do. Everything here is public; the shapes are in `docs/client.md`.
"""

from ...runs.client_errors import (
    ControlRequestRefused,
    RunEnding,
    RunFailedToStart,
    RunNotAlive,
    RunVanished,
)
from .live_run import LiveRun, attach_run
from .open_run import NewRunOptions, open_run
from .run_events import Event
from .turn_tracking import TurnResult

__all__ = [
    "ControlRequestRefused",
    "Event",
    "LiveRun",
    "NewRunOptions",
    "RunEnding",
    "RunFailedToStart",
    "RunNotAlive",
    "RunVanished",
    "TurnResult",
    "attach_run",
    "open_run",
]
