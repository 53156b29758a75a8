"""Exports a run as one archive for somebody else: records and settings, known secrets redacted.

Every line is redacted once more, with today's secrets. What cannot be redacted (copies of files,
images) is not exported. Blocks.
"""

import io
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.redact import MIN_SECRET_CHARS, Redactor
from swarm.mailbox.base.redact_structs import redact_json
from swarm.mailbox.base.safe_open import OpenFolder, check_file_name, resolve_links

from ..base.version import VERSION
from .paths import RunPaths
from .run_metadata import read_metadata

_SECRET_NAME = re.compile(r"(?i)(key|secret|token|passw|credential)")
_MAX_LINE_BYTES = 64 * 1024 * 1024
_IN_MEMORY_BYTES = 1024 * 1024


class ExportResult(NamedTuple):
    """What went into the archive."""

    files: int
    lines: int
    redacted: int  # lines in which something was redacted
    size_bytes: int


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """Values of variables whose names suggest a secret."""
    return [
        value
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and len(value) >= MIN_SECRET_CHARS
        and not value.startswith("/")  # the path to a secret is no secret
    ]  # fmt: skip


def export_run(source: RunPaths, target: Path, *, redactor: Redactor, force: bool) -> ExportResult:
    """Write a gzipped tar archive, in one step and readable by its owner alone.

    Raises UsageError: no run, or the file exists already; SwarmError: it cannot be written.
    """
    read_metadata(source)
    if target.exists() and not force:
        raise UsageError(f"{target} exists; give another name, or --force")
    done: list[ExportResult] = []
    try:
        check_file_name(target.name)
        folder = OpenFolder(resolve_links(target.absolute().parent))
        with closing(folder):
            folder.replace(
                target.name,
                lambda file: done.append(_write_archive(source, file, redactor)),
                mode=0o600,
            )
    except OSError as error:
        raise SwarmError(f"cannot write {target}: {error.strerror}") from error
    return done[0]._replace(size_bytes=target.stat().st_size)


def _write_archive(source: RunPaths, file: IO[bytes], redactor: Redactor) -> ExportResult:
    name = f"swarm-{source.folder.name}"
    files = lines = redacted = 0
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for path in sorted(source.folder.glob("*.json")) + sorted(source.journal.glob("*.jsonl")):
            with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as clean:
                count, hidden = _redact_file(path, clean, redactor)
                _add_file(archive, f"{name}/{path.relative_to(source.folder)}", clean)
            files, lines, redacted = files + 1, lines + count, redacted + hidden
        about = {"run": source.folder.name, "version": VERSION, "lines_redacted": redacted}
        _add_file(archive, f"{name}/export.json", io.BytesIO(msgspec.json.encode(about)))
    return ExportResult(files, lines, redacted, 0)


def _redact_file(path: Path, target: IO[bytes], redactor: Redactor) -> tuple[int, int]:
    """Whole lines only: the last one of a live run may be half-written."""
    count = hidden = 0
    is_journal = path.suffix == ".jsonl"
    with path.open("rb") as file:
        while line := file.readline(_MAX_LINE_BYTES):
            if is_journal and not line.endswith(b"\n"):
                break
            clean = redact_json(redactor, line)
            target.write(clean)
            count += 1
            hidden += clean != line
    return count, hidden


def _add_file(archive: tarfile.TarFile, name: str, file: IO[bytes]) -> None:
    """Add a file without owner names or ids of this machine."""
    facts = tarfile.TarInfo(name)
    facts.size = file.seek(0, os.SEEK_END)
    facts.mode, facts.mtime = 0o600, int(time.time())
    file.seek(0)
    archive.addfile(facts, file)
