"""The hook files of a project, and the scripts that they start, among its trusted files.

`config/project_config.py` reads them with the rest of a project's configuration: they count only
when their exact content was trusted.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_start
from swarm.mailbox.protocol.hooks import Hook, HookForm, HookScript
from swarm.mailbox.protocol.values.base import Value

from ...base.project_links import ProjectLinks
from .hook_file import HookFile, names_hooks, read_hook_json, read_hook_table
from .hook_scripts import hook_scripts

FILE_BYTES = 1 << 20


class HookSource(Value):
    """A file in which a project may keep hooks; `name` is relative to the project's folder."""

    name: str
    form: HookForm


SOURCES = (
    HookSource(name=".swarm/hooks.json", form="codex"),
    HookSource(name=".codex/hooks.json", form="codex"),
    HookSource(name=".claude/settings.json", form="claude"),
    HookSource(name=".claude/settings.local.json", form="claude"),
)


def hook_form(name: str) -> HookForm | None:
    """The form of a hook file by its path relative to `.swarm`; None for any other file."""
    for source in SOURCES:
        if name == source.name.removeprefix(".swarm/") or name == f"../{source.name}":
            return source.form
    return None


def has_hook_file(folder: Path) -> bool:
    """True if a project may keep hooks in this folder. Those of a home are the person's own."""
    return folder != Path.home() and any(os.path.lexists(folder / one.name) for one in SOURCES)


def read_hook_files(folder: Path, root: str = "") -> Iterator[tuple[str, bytes]]:
    """(path, content) of each hook file of a project's folder, which is canonical.

    Links are followed below `root`, by default the folder; one that leads elsewhere is an error,
    not left out, for its hooks may be there to say no.

    Raises UsageError, OSError if one cannot be read.
    """
    if not has_hook_file(folder):
        return
    for source in SOURCES:
        path = folder / source.name
        if not os.path.lexists(path):
            continue
        data = _read_linked(path, root or str(folder))
        if source.form == "codex" or names_hooks(data):
            yield str(path), data


def read_scripts(
    folder: Path, files: Mapping[str, bytes], table: object
) -> Iterator[tuple[str, bytes]]:
    """(path, content) of each script that the project's hooks start.

    Args:
        table: The `[hooks]` table of its config.toml.

    Raises UsageError, OSError: one is a link, too large, or cannot be read.
    """
    try:
        hooks = project_hooks(folder, files, table).hooks
    except UsageError:
        return  # no hook of it runs; its layer says why
    for path in {script for hook in hooks for script in hook_scripts(hook, str(folder))}:
        if os.path.lexists(path):
            yield path, _read(Path(path))


def project_hooks(folder: Path, files: Mapping[str, bytes], table: object) -> HookFile:
    """The hooks of a project's folder, from its files as they were read.

    Raises UsageError: a file of the own form is no hook file.
    """
    hooks: list[Hook] = []
    warnings: list[str] = []
    if table:
        read = read_hook_table(table, str(folder / ".swarm" / "config.toml"), form="codex")
        hooks += read.hooks
        warnings += read.warnings
    for source in SOURCES:
        path = str(folder / source.name)
        if path not in files:
            continue
        try:
            read = read_hook_json(files[path], path, form=source.form)
        except UsageError as error:
            if source.form == "codex":
                raise
            warnings.append(f"{error}; its hooks are left out")
            continue
        hooks += read.hooks
        warnings += read.warnings
    held = tuple(_with_scripts(hook, str(folder), files) for hook in hooks)
    return HookFile(hooks=held, warnings=tuple(warnings))


def _with_scripts(hook: Hook, folder: str, files: Mapping[str, bytes]) -> Hook:
    import hashlib  # most projects have no hooks

    scripts = tuple(
        HookScript(
            path=path, sha256=hashlib.sha256(files[path]).hexdigest() if path in files else ""
        )
        for path in hook_scripts(hook, folder)
    )
    return msgspec.structs.replace(hook, folder=folder, scripts=scripts)


def _read_linked(path: Path, root: str) -> bytes:
    """The file, or where its links lead inside of `root`. Raises UsageError, OSError."""
    links = ProjectLinks(root)
    real = links.follow(str(path))
    if real is None:
        raise UsageError(links.left_out[0])
    return _read(Path(real))


def _read(path: Path) -> bytes:
    if os.path.realpath(path) != str(path):
        raise UsageError(f"{path}: it is a link; hooks of a project must be its own files")
    data = read_start(open_canonical(str(path), READ_FLAGS), most_bytes=FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise UsageError(f"{path}: larger than {FILE_BYTES >> 20} MiB")
    return data
