"""What may go wrong between a client and a run. Each text says what to do next."""

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.control import Refused


class RunNotAlive(UsageError):
    """The run has no supervisor that could answer."""

    def __init__(self, run_id: str) -> None:
        short = short_id(run_id)
        super().__init__(
            f"run {short} is not alive; `swarm show {short}` shows it, "
            f"`swarm resume {short}` goes on with it"
        )


class RunVanished(SwarmError):
    """The run's supervisor ended without a result: it was killed, or the machine went down."""

    def __init__(self, run_id: str) -> None:
        short = short_id(run_id)
        super().__init__(
            f"run {short} ended without a result; nothing is lost: `swarm resume {short}` "
            "goes on with it"
        )


class RunSilent(SwarmError):
    """The run lives, and its supervisor does not answer."""

    def __init__(self, run_id: str, timeout_s: float) -> None:
        super().__init__(f"run {short_id(run_id)} did not answer within {timeout_s:g} s")


class RunFailedToStart(SwarmError):
    """`swarm run` refused or failed before its first record; carries its words and exit code."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ControlRequestRefused(SwarmError):
    """The supervisor refused the request; carries its message and exit code."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.exit_code = refused.exit_code


class RunEnding(ControlRequestRefused):
    """The run is ending and took nothing of the request; once it has ended, a resume takes it."""
