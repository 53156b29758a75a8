"""Writes changes to the user's configuration file: locked, checked, replaced atomically.

A reader sees the old file or the new one. Two writers run one after the other. If the path is a
link, its target is changed. The file becomes readable for its owner only.
"""

import os
from collections.abc import Callable
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError

from ..atomic_replace import locked_folder, replace_file
from ..file_reading import FILE_BYTES, decode_text, parse_toml, read_bounded
from ..schema import Toml
from .toml_edit import ConfigEdit, apply_edit, content_version, edit_text


class ConfigNotWritten(SwarmError):
    """Nothing was written; the file is unchanged."""


class VersionConflict(ConfigNotWritten):
    """The file has changed since the caller read it."""


def write_edit(
    path: Path, edit: ConfigEdit, *, if_version: str | None, check: Callable[[Toml], None]
) -> str:
    """Apply one edit to the file and return its new version.

    Args:
        path: The file, or a link to it; created with its folder if missing.
        edit: What to change.
        if_version: The version that the file must have now; None: any.
        check: Raises for a result that must not be written.

    Raises:
        VersionConflict: The file has another version.
        ConfigNotWritten: The file cannot be written, or another process holds its lock.
        UsageError: The file cannot be read.
    """
    target = Path(os.path.realpath(path))
    try:
        with locked_folder(target.parent):
            text, values = read_values(target)
            if if_version is not None and if_version != content_version(values):
                raise VersionConflict(
                    f"{path} was modified since it was read (it is {content_version(values)}); "
                    "nothing was written: read it again and retry"
                )
            wanted = apply_edit(values, edit)
            check(wanted)
            changed = edit_text(text, edit)
            if changed != text:
                if len(changed.encode()) > FILE_BYTES:
                    raise ConfigNotWritten(f"{target} would be over 1 MiB; nothing was written")
                replace_file(target, changed.encode())
    except OSError as error:
        raise ConfigNotWritten(f"{path} was not changed: {error.strerror or error}") from error
    return content_version(wanted)


def read_values(path: Path) -> tuple[str, Toml]:
    """The file's text and table, both empty if it is missing. Raises UsageError."""
    try:
        text = decode_text(read_bounded(path), path)
    except FileNotFoundError:
        return "", {}
    return text, parse_toml(text, path)
