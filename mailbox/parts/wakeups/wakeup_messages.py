"""Wake-ups: for what reason an agent without a process is to be woken, how often, until when.

A wake-up is journaled when it is made and when it fires; what was not fired when the supervisor
died fires after the resume. Times are of the wall clock.
"""

from typing import Literal

from ...base.named_tool import NamedTool
from ...protocol.values.base import Tagged, Value

WAKE_ME = NamedTool(name="wake_me", reads=True)
WAKE_TOOLS = (WAKE_ME,)
WakeCause = Literal["clock", "command", "limit", "person", "check"]
# Why a wake-up is over: it fired as often as it may, its agent or a person took it back, its time
# is over, its agent was ended for good, or what it waited for was lost with the supervisor.
WakeUpEnd = Literal["fired", "agent", "person", "expired", "agent_gone", "lost"]


class WakeUp(Value):
    """One reason to wake an agent; numbers begin with 1 in each run."""

    number: int
    agent: str  # its path; "" = every agent of the run
    cause: WakeCause
    made_unix_s: float
    why: str = ""  # in the words of who made it
    due_unix_s: float | None = None  # it fires then; None: it fires when its cause says so
    until_unix_s: float | None = None  # then it is over, fired or not
    most: int = 1  # how often it fires
    fired: int = 0  # so far
    about: str = ""  # of a limit: `provider/model`


class WakeUpMade(Tagged):
    """From now on the agent may wait for this without a process."""

    wake_up: WakeUp


class WakeUpFired(Tagged):
    """It has fired; the mail with this id and text follows. "" as id: nobody is sent a mail."""

    number: int
    mail_id: str = ""
    text: str = ""
    is_last: bool = True  # it is over with this


class WakeUpEnded(Tagged):
    """It is over without firing again."""

    number: int
    reason: WakeUpEnd


WakeUpRecord = WakeUpMade | WakeUpFired | WakeUpEnded


class WakeMe(Tagged):
    """Wake the asking agent once, after some time or at a time. The reply is `WakeUpKept`."""

    why: str
    after_s: float | None = None
    at: str = ""  # ISO 8601; without an offset in this machine's zone


class TakeBackWakeUp(Tagged):
    """The asking agent wants one of its wake-ups no more. The reply is `WakeUpTakenBack`."""

    number: int


class WaitForLimit(Tagged):
    """The provider has refused the asking agent's request until a limit resets.

    The reply is `LimitOver`, or `RequestRefused` if the run does not wait for it. The process may
    be ended meanwhile; the next one continues the turn.
    """

    provider: str
    model: str
    resets_at_unix_s: float
    message: str  # of the failure


class LimitOver(Tagged):
    """The limit has reset, or a person wants it tried now."""


class WakeUpKept(Tagged):
    """It is in the journal; `at` is its time as people of this machine write it."""

    number: int
    at: str
    in_s: float


class WakeUpTakenBack(Tagged):
    """It will not fire."""

    number: int


class WakeUpSettings(Value):
    """What the run waits for."""

    wait_for_limit_s: float = 0.0  # the longest wait for a limit to reset; 0: none


class CancelWakeUps(Tagged):
    """A person takes back one wake-up of a live run, or all of them (0)."""

    number: int = 0
