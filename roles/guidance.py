"""The AGENTS.md chain: what a project and a person want every agent to know.

Rule: never above the project's root, never over the budget, and a cut is said aloud.
Source: Codex `project_doc.rs`; differs in that a cut is a warning and not silent.
"""

from collections.abc import Sequence
from pathlib import Path

from swarm.mailbox.protocol.base import Value

BUDGET_BYTES = 32 * 1024
_NAMES = ("AGENTS.override.md", "AGENTS.md")
_PERSONAL_BYTES = 256 * 1024
_BETWEEN = "\n\n--- project-doc ---\n\n"


class Guidance(Value):
    """The joined text, the files it is from, and what went wrong."""

    text: str = ""
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    left_bytes: int = 0  # of the budget, for folders below


class GuidanceRules(Value):
    """`project_doc_*` and `project_root_markers` of the configuration."""

    limit_bytes: int = BUDGET_BYTES
    fallback_names: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = (".git",)


def load_guidance(cwd: Path, *, config_folder: Path, rules: GuidanceRules) -> Guidance:
    """Read the person's file, then one file a folder from the project's root down to `cwd`.

    Args:
        cwd: Absolute.
        config_folder: Where the person's own AGENTS.md lies; it is not under the budget.
        rules: Byte budget of all project files together (0: none are read) and names.
    """
    personal, own = _read_personal(config_folder)
    parts: list[str] = []
    sources = list(own)
    warnings: list[str] = []
    left = rules.limit_bytes
    for path in _project_files(cwd, rules):
        try:
            data = _read_start(path, max(left, 0) + 1)
        except OSError as error:
            warnings.append(f"{path} cannot be read: {error.strerror}")
            continue
        if not data.strip():
            continue
        if left <= 0:
            warnings.append(f"{path} is left out: {_over(rules.limit_bytes)}")
            continue
        if len(data) > left:
            warnings.append(f"{path} is cut after {left:,} bytes: {_over(rules.limit_bytes)}")
        parts.append(data[:left].decode("utf-8", "replace"))
        sources.append(str(path))
        left -= len(data)
    project = "\n\n".join(parts)
    text = _BETWEEN.join(part for part in (personal, project) if part)
    return Guidance(
        text=text, sources=tuple(sources), warnings=tuple(warnings), left_bytes=max(0, left)
    )


def read_further(folder: Path, *, root: Path, rules: GuidanceRules) -> Guidance:
    """One folder's own file, for an agent that begins to work there; nothing if it has none.

    Args:
        folder: Below `root`; both are real paths.
        root: What a link may not lead out of.
        rules: Their `limit_bytes` is what is left of the budget.
    """
    path = _file_in(folder, rules)
    if path is None or rules.limit_bytes <= 0:
        return Guidance()
    try:
        if not path.resolve().is_relative_to(root):
            return Guidance(warnings=(f"{path} is left out: it leads out of {root}",))
        data = _read_start(path, rules.limit_bytes + 1)
    except (OSError, RuntimeError) as error:
        return Guidance(warnings=(f"{path} cannot be read: {error}",))
    if not data.strip():
        return Guidance()
    text = data[: rules.limit_bytes].decode("utf-8", "replace")
    warnings: tuple[str, ...] = ()
    if len(data) > rules.limit_bytes:
        text += "\n[cut here: project_doc_max_bytes is used up]"
        warnings = (f"{path} is cut after {rules.limit_bytes:,} bytes: all files are over budget",)
    left = max(0, rules.limit_bytes - len(data))
    return Guidance(text=text, sources=(str(path),), warnings=warnings, left_bytes=left)


def _read_start(path: Path, most_bytes: int) -> bytes:
    """The file's first bytes: a file of any size costs no more than its budget."""
    with path.open("rb") as file:
        return file.read(most_bytes)


def _file_in(folder: Path, rules: GuidanceRules) -> Path | None:
    names = (*_NAMES, *(name for name in rules.fallback_names if "/" not in name))
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _over(limit_bytes: int) -> str:
    return f"project_doc_max_bytes is {limit_bytes:,}; raise it or shorten the files"


def _read_personal(folder: Path) -> tuple[str, tuple[str, ...]]:
    for name in _NAMES:
        path = folder / name
        try:
            with path.open("rb") as file:
                text = file.read(_PERSONAL_BYTES).decode("utf-8", "replace").strip()
        except OSError:
            continue
        if text:
            return text, (str(path),)
    return "", ()


def _project_files(cwd: Path, rules: GuidanceRules) -> list[Path]:
    if rules.limit_bytes <= 0:
        return []
    real = cwd.resolve()
    root = find_project_root(real, rules.root_markers)
    folders = [folder for folder in (real, *real.parents) if folder.is_relative_to(root)]
    found = (_file_in(folder, rules) for folder in reversed(folders))
    return [path for path in found if path is not None]


def find_project_root(cwd: Path, markers: Sequence[str]) -> Path:
    """The nearest folder from `cwd` upwards that holds a marker; `cwd` itself if none does."""
    for folder in (cwd, *cwd.parents):
        if any((folder / marker).exists() for marker in markers):
            return folder
    return cwd
