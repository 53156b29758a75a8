"""One call of a tool while it runs; its time limit rests while a person is asked."""

import trio

from swarm.mailbox.base.resting_limit import RestingLimit


class RunningCall:
    """A call from its begin to its end.

    Args:
        request: The supervisor's number of the call.
    """

    def __init__(self, request: int, tool: str, *, limit_s: float) -> None:
        self.request, self.tool = request, tool
        self.limit = RestingLimit(limit_s)
        self.questions = 0  # that its server asked during it
        self.ended = trio.Event()
