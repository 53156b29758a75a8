"""Model files: the catalogue of known files, their paths, and their verification.

A file is checked against its sha256 once, when it arrives; later starts compare size and mtime with
the stamp that was written then.
"""

import hashlib
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

_BLOCK = 1 << 20


class FileParts(Value):
    """A file that some sources have in parts: all of one size, but for the last."""

    size_bytes: int
    sha256: tuple[str, ...]  # of each part, in their order


class Weights(Value):
    """One model file. `sources` are tried in order; weights.toml explains their forms."""

    file: str
    size_bytes: int
    sha256: str
    sources: tuple[str, ...]
    licence: str = ""
    about: str = ""
    context_window: int = 4096
    can_call_tools: bool = False
    short_prompt: bool = True
    max_output_tokens: int = 2048  # of one answer; an answer that reaches it is cut
    parts: FileParts | None = None
    keep_alive_s: float = 600.0  # without a request; then its process ends. 0: only with the run


class _Catalogue(Value):
    weights: dict[str, Weights] = {}


def load_weights(additions: Sequence[str] = ()) -> dict[str, Weights]:
    """The built-in entries and those of the given models.toml files; the last file wins.

    Raises UsageError naming a file that cannot be read.
    """
    known: dict[str, Weights] = {}
    for path in [Path(__file__).with_name("weights.toml"), *map(Path, additions)]:
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
            known |= msgspec.convert(table, _Catalogue).weights
        except FileNotFoundError:
            continue
        except (OSError, ValueError, msgspec.ValidationError) as error:
            raise UsageError(f"{path}: {error}") from error
    for name, entry in known.items():
        if "/" in entry.file or entry.file.startswith("."):
            raise UsageError(f"the file of model {name!r} must be a plain name")
        if entry.parts is not None and entry.parts.size_bytes < 1:
            raise UsageError(f"the parts of model {name!r} must have a size of at least one byte")
    return known


def find_weights(models_dir: Path, name: str, additions: Sequence[str] = ()) -> Path | None:
    """The file of model `name` if it is present and verified, else None.

    Raises UsageError for an unknown name; the error lists the known names.
    """
    entry = known_weights(name, additions)
    path = weights_path(models_dir, entry)
    return path if is_verified(path, entry) else None


def weights_path(models_dir: Path, entry: Weights) -> Path:
    """Where the file belongs, present or not."""
    return models_dir / entry.file


def known_weights(name: str, additions: Sequence[str] = ()) -> Weights:
    """The entry of that name. Raises UsageError, which lists the known names."""
    known = load_weights(additions)
    if name not in known:
        raise UsageError(f"no local model {name!r}; known: {', '.join(sorted(known))}")
    return known[name]


def is_verified(path: Path, entry: Weights) -> bool:
    """True if the file was verified once and has not changed since."""
    try:
        facts = path.stat()
        stamp = _stamp(path).read_text(encoding="utf-8")
    except OSError:
        return False
    return facts.st_size == entry.size_bytes and stamp == _mark(entry, facts.st_mtime_ns)


def verify_weights(path: Path, entry: Weights) -> bool:
    """Check a new file against size and sha256; write the stamp if both match."""
    if path.stat().st_size != entry.size_bytes or sha256_of(path) != entry.sha256:
        return False
    _stamp(path).write_text(_mark(entry, path.stat().st_mtime_ns), encoding="utf-8")
    return True


def sha256_of(path: Path, progress: Callable[[int, int], None] | None = None) -> str:
    """The file's sha256 in hex. `progress` receives the bytes so far and the total."""
    digest = hashlib.sha256()
    have, total = 0, path.stat().st_size
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            have += len(block)
            if progress is not None:
                progress(have, total)
    return digest.hexdigest()


def _stamp(path: Path) -> Path:
    return path.with_name(f"{path.name}.checked")


def _mark(entry: Weights, mtime_ns: int) -> str:
    return f"{entry.sha256} {mtime_ns}\n"
