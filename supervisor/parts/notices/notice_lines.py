"""Notices in words; all text is cleaned."""

from swarm.mailbox.parts.notices.notice_messages import NoticeBegan, NoticeEnded

from ...base.json_line import JsonLine
from ...base.safe_text import clean_line


def describe_notice(record: NoticeBegan | NoticeEnded) -> str:
    """One line."""
    if isinstance(record, NoticeBegan):
        return clean_line(f"told ({', '.join(record.sinks)}): {record.text}")
    failed = "; ".join(f"{sink}: {why}" for sink, why in record.failed.items())
    return clean_line(f"not told by {failed}") if failed else "told"


class NoticeSentLine(JsonLine, tag="notice.sent"):
    id: str
    kind: str
    urgency: str
    text: str
    sinks: tuple[str, ...]


class NoticeEndedLine(JsonLine, tag="notice.ended"):
    id: str
    failed: dict[str, str]


def notice_json_line(record: NoticeBegan | NoticeEnded) -> JsonLine:
    """The line of `--json`."""
    if isinstance(record, NoticeBegan):
        return NoticeSentLine(
            id=record.notice_id,
            kind=record.kind,
            urgency=record.urgency,
            text=record.text,
            sinks=record.sinks,
        )
    return NoticeEndedLine(id=record.notice_id, failed=record.failed)
