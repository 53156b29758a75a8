"""`swarm models add FILE` and `swarm models pull NAME --file FILE`: model files that are here.

The file stays where it is; the folder of the models gets a link to it, and the stamp of its check.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.private_files import make_own_folders

from .fetch import Progress
from .gguf_header import GgufHeader, check_is_whole, read_gguf_header
from .weights import Weights, known_weights, load_weights, sha256_of, verify_weights, weights_path

_NAME = re.compile(r"[a-z0-9][a-z0-9._:-]{0,63}\Z")
_WINDOW = 16_384  # of an added model; more costs memory for every slot
_UNKNOWN_WINDOW = 4_096


def link_known_model(
    models_dir: Path, name: str, file: Path, additions: Sequence[str], progress: Progress
) -> Path:
    """Use `file` as the file of a model of the catalogue, after a check of its sha256.

    Raises UsageError: it is another file, or the name is unknown.
    """
    entry = known_weights(name, additions)
    real = _existing(file)
    if real.stat().st_size != entry.size_bytes or sha256_of(real, progress) != entry.sha256:
        raise UsageError(
            f"{file} is not the file of {name}: expected are {entry.size_bytes:,} bytes and sha256 "
            f"{entry.sha256}. To use it under a name of its own: swarm models add {file}"
        )
    return _link(models_dir, entry, real)


def add_model(
    models_dir: Path,
    file: Path,
    additions: Sequence[str],
    progress: Progress,
    *,
    name: str,
    catalogue: Path,
) -> tuple[str, Path]:
    """Enter `file` into the person's catalogue as a model of the provider `local`.

    Args:
        name: The model's name; "" = made from the file's name.
        catalogue: The models.toml that gets the entry; made if it is missing.

    Returns:
        The model's name, and the link that was made.

    Raises:
        UsageError: no such file, a bad name, or a name that is taken.
        NotAModelFile: it is no GGUF file, or only a part of one.
    """
    real = _existing(file)
    header = read_gguf_header(real)
    check_is_whole(real)
    name = name or _name_of(file)
    if not _NAME.match(name):
        raise UsageError(
            f"{name!r} cannot be a model's name: small letters, digits and . _ : - ; use --name"
        )
    if name in load_weights(additions):
        raise UsageError(f"there is a model {name} already; choose another name with --name")
    entry = _entry(real, header, sha256_of(real, progress), name)
    link = _link(models_dir, entry, real)
    _append_entry(catalogue, name, entry)
    return name, link


def _existing(file: Path) -> Path:
    real = file.expanduser().absolute()
    if not real.is_file():
        raise UsageError(f"there is no file {file}")
    return real


def _name_of(file: Path) -> str:
    """`Qwen2.5-Coder-7B-Instruct-Q4_K_M.gguf` → `qwen2.5-coder-7b-instruct-q4_k_m`."""
    return re.sub(r"[^a-z0-9._:-]+", "-", file.name.lower().removesuffix(".gguf")).strip("-._:")


def _entry(file: Path, header: GgufHeader, sha256: str, name: str) -> Weights:
    return Weights(
        file=f"{name.replace(':', '-')}.gguf",
        size_bytes=file.stat().st_size,
        sha256=sha256,
        sources=(),
        about=header.name or header.architecture or "an added model file",
        context_window=min(header.context_window or _UNKNOWN_WINDOW, _WINDOW),
        can_call_tools=True,
    )


def _link(models_dir: Path, entry: Weights, real: Path) -> Path:
    make_own_folders(models_dir)
    link = weights_path(models_dir, entry)
    if link.resolve() != real.resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(real)
    if not verify_weights(link, entry):
        raise UsageError(f"{real} changed while it was read; try again")
    return link


def _append_entry(catalogue: Path, name: str, entry: Weights) -> None:
    """Add the table at the end; what stands there stays byte for byte."""
    about = entry.about.translate({ord('"'): "'", ord("\\"): "/"})
    about = "".join(sign for sign in about if sign.isprintable())[:80]
    table = (
        f'\n[weights."{name}"]\n'
        f'file = "{entry.file}"\n'
        f"size_bytes = {entry.size_bytes}\n"
        f'sha256 = "{entry.sha256}"\n'
        "sources = []\n"
        f'about = "{about}"\n'
        f"context_window = {entry.context_window}\n"
        "can_call_tools = true\n"
    )
    make_own_folders(catalogue.parent)
    before = catalogue.read_text(encoding="utf-8") if catalogue.exists() else ""
    end = "" if before.endswith("\n") or not before else "\n"
    catalogue.write_text(f"{before}{end}{table}", encoding="utf-8")
