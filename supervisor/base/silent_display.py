"""A display that shows nothing: for runs that programs of ours start and read themselves."""

from collections.abc import Callable

import trio

from swarm.mailbox.protocol.control import AnyFeed, RunView
from swarm.mailbox.protocol.records import RunCompleted


class SilentDisplay:
    """Shows nothing; see `RunDisplay`."""

    def on_feed(self, feed: AnyFeed) -> None:
        """One record or passing event."""

    async def draw(self, current: Callable[[], RunView]) -> None:
        """Nothing, for as long as the run lasts."""
        await trio.sleep_forever()

    def finish(self, completed: RunCompleted) -> None:
        """The run is over."""
