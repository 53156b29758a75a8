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
            data = path.read_bytes()
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
    return Guidance(text=text, sources=tuple(sources), warnings=tuple(warnings))


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
    names = (*_NAMES, *(name for name in rules.fallback_names if "/" not in name))
    found: list[Path] = []
    for folder in reversed(folders):
        fits = (folder / name for name in names if (folder / name).is_file())
        if (first := next(fits, None)) is not None:
            found.append(first)
    return found


def find_project_root(cwd: Path, markers: Sequence[str]) -> Path:
    """The nearest folder from `cwd` upwards that holds a marker; `cwd` itself if none does."""
    for folder in (cwd, *cwd.parents):
        if any((folder / marker).exists() for marker in markers):
            return folder
    return cwd
