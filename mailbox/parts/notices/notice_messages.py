"""Notices: the `[notify]` table, what agents ask, and what was told."""

from typing import Literal

from ...base.named_tool import NamedTool
from ...protocol.values.base import Tagged, Value

TELL_PERSON = NamedTool(name="tell_person", reads=True)
NOTICE_TOOLS = (TELL_PERSON,)
MAX_CHARS = 200

Urgency = Literal["low", "normal", "high"]
NoticeKind = Literal["agent", "question", "end"]
Sink = Literal["terminal", "desktop", "ntfy", "webhook", "command"]


class NotifySettings(Value):
    """`[notify]`: where a person is told. Only the person's own configuration has it."""

    program: tuple[str, ...] = ()  # as `notify = […]`: started after each turn of the root
    terminal: bool = False  # bell and OSC 9 / 777
    desktop: bool = False  # `notify-send`
    ntfy: str = ""  # the address of a topic
    ntfy_token_env: str = ""  # the variable that holds its token
    webhook: str = ""  # gets JSON
    webhook_token_env: str = ""
    command: tuple[str, ...] = ()  # gets JSON as its last argument
    about: tuple[Literal["agents", "questions", "end"], ...] = ("agents", "questions", "end")

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Those that are configured, in the order in which they are tried."""
        found: dict[Sink, bool] = {
            "terminal": self.terminal,
            "desktop": self.desktop,
            "ntfy": bool(self.ntfy),
            "webhook": bool(self.webhook),
            "command": bool(self.command),
        }
        return tuple(name for name, is_there in found.items() if is_there)


class NoticeAccess(Value):
    """What an agent's process is told: whether it may tell a person something."""

    can_tell: bool = False


class TellPerson(Tagged):
    """Tell the person who started the run; the reply is `PersonTold`. Nobody answers."""

    text: str
    urgency: Urgency = "normal"


class PersonTold(Tagged):
    """It is on its way; or why not."""

    refusal: str = ""


class NoticeBegan(Tagged):
    """A notice is about to be sent. It is never sent again, whatever happens to it."""

    notice_id: str
    text: str
    kind: NoticeKind = "agent"
    urgency: Urgency = "normal"
    sinks: tuple[Sink, ...] = ()


class NoticeEnded(Tagged):
    """All of its sinks have ended."""

    notice_id: str
    failed: dict[str, str] = {}  # sink → why
