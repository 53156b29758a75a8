"""What a run has told so far, also before a resume. No I/O, no clock."""

from swarm.mailbox.parts.notices.notice_messages import NoticeBegan, NoticeKind

from .notice_limits import refusal_at


class NoticePast:
    """Times of notices by kind: their limits hold over resumes."""

    def __init__(self) -> None:
        self._told: dict[NoticeKind, list[float]] = {}
        self.is_end_told = False  # nothing was told since the run's end

    def take(self, ts: float, record: NoticeBegan) -> None:
        """The next record of the run's own file."""
        self.note(record.kind, ts)

    def note(self, kind: NoticeKind, now: float) -> None:
        self._told.setdefault(kind, []).append(now)
        self.is_end_told = kind == "end"

    def refusal_now(self, kind: NoticeKind, now: float) -> str:
        """Why nothing of this kind may be told now; "": it may. An end is always told."""
        return "" if kind == "end" else refusal_at(now, self._told.get(kind, ()))
