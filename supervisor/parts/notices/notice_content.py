"""What is sent of a notice: its text and the run's name, nothing of the conversation. No I/O."""

from typing import NamedTuple
from urllib.parse import quote

import msgspec

from swarm.mailbox.parts.notices.notice_messages import MAX_CHARS, NoticeBegan, Urgency

from ...base.safe_text import clean_line

_NTFY_PRIORITY: dict[Urgency, str] = {"low": "2", "normal": "3", "high": "5"}
_DESKTOP_URGENCY: dict[Urgency, str] = {"low": "low", "normal": "normal", "high": "critical"}


class RunNotice(NamedTuple):
    """A notice of a run."""

    began: NoticeBegan
    run: str  # its short id, or its name

    @property
    def title(self) -> str:
        return f"swarm {self.run}"

    def as_json(self) -> bytes:
        """For webhooks and commands."""
        began = self.began
        return msgspec.json.encode(
            {
                "type": "notice",
                "kind": began.kind,
                "id": began.notice_id,
                "run": self.run,
                "urgency": began.urgency,
                "text": began.text,
            }
        )

    def for_terminal(self) -> bytes:
        """A bell, and the notice in the two forms that terminals know; no text can end them."""
        text = f"{self.title}: {self.began.text}".replace(";", ",")
        said = "".join(one for one in text if one.isprintable())
        return f"\a\x1b]9;{said}\a\x1b]777;notify;{self.title};{said}\a".encode()

    def for_ntfy(self) -> dict[str, str]:
        """The headers of ntfy; they are ASCII."""
        return {
            "Title": quote(self.title, safe=" "),
            "Priority": _NTFY_PRIORITY[self.began.urgency],
            "Content-Type": "text/plain; charset=utf-8",
        }

    def for_desktop(self, program: str) -> tuple[str, ...]:
        """The command; no text of it is read as an option, and none as markup."""
        text = self.began.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        urgency = _DESKTOP_URGENCY[self.began.urgency]
        return (program, "--app-name=swarm", f"--urgency={urgency}", "--", self.title, text)


def cut_to_notice(text: str) -> str:
    """One line of at most 200 characters."""
    return clean_line(text, limit=MAX_CHARS)
