"""Journals as resources: the list of runs, the state of one, and its records as JSON lines."""

import re
from collections.abc import Sequence

import mcp_types as types
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.records import encode_record

from ...journal.journal_reader import read_records
from ...runs.paths import RunPaths
from ...runs.run_list import summarize
from .run_report import report_row
from .served_runs import ServedRuns

_JSON, _LINES = "application/json", "application/jsonl"
_PAGE_BYTES = 1 << 20
_URI = re.compile(r"swarm://runs/([0-9a-f-]{8,40})(/journal)?(?:\?after=([0-9]{1,12}))?\Z")
TEMPLATES = (
    types.ResourceTemplate(
        uri_template="swarm://runs/{run}", name="run", mime_type=_JSON,
        description="A run: its state, title, folder and when it began.",
    ),
    types.ResourceTemplate(
        uri_template="swarm://runs/{run}/journal{?after}", name="journal", mime_type=_LINES,
        description="A run's records in order, one JSON object a line, behind the number `after`. "
        "At most 1 MiB; read on behind the last `seq`.",
    ),
)  # fmt: skip


def list_run_resources(runs: ServedRuns) -> list[types.Resource]:
    """The newest runs and their journals. Reads files."""
    listed: list[types.Resource] = []
    for one in runs.summaries():
        row, short = report_row(one), short_id(one.run_id)
        base = f"swarm://runs/{one.run_id}"
        listed += [
            types.Resource(uri=base, name=f"run {short}", title=row.title, mime_type=_JSON),
            types.Resource(uri=f"{base}/journal", name=f"journal {short}", mime_type=_LINES),
        ]
    return listed


def read_run_resource(runs: ServedRuns, uri: str) -> types.TextResourceContents:
    """Reads files. Raises UsageError for an address of nothing, or of another run."""
    match = _URI.match(uri)
    if match is None:
        raise UsageError(f"no resource {uri[:300]!r}; there are swarm://runs/ID and …/journal")
    paths = runs.find(match[1]).paths
    if match[2] is None:
        text = msgspec.json.encode(report_row(summarize(paths))).decode()
        return types.TextResourceContents(uri=uri, mime_type=_JSON, text=text)
    lines = _journal_lines(paths, int(match[3] or 0))
    text = b"".join(lines).decode()
    return types.TextResourceContents(uri=uri, mime_type=_LINES, text=text)


def _journal_lines(paths: RunPaths, after: int) -> Sequence[bytes]:
    lines: list[bytes] = []
    size = 0
    for record in read_records(paths):
        if record.seq <= after:
            continue
        line = encode_record(record) + b"\n"
        size += len(line)
        if size > _PAGE_BYTES and lines:
            break
        lines.append(line)
    return lines
