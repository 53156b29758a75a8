"""`.rules` files → one `Rules` value, with the file that each rule is from.

Rule: all files accumulate and the strictest rule wins, so order decides nothing but the listing.
One broken file and no rule is known at all (`Rules.broken` says file, line and what): half a
policy is not obeyed as if it were the whole. A file that cannot be read is an error.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.rules import RuleSet

from ..config.file_reading import read_bounded
from ..config.merge import Layer
from ..config.requirements import NO_REQUIREMENTS, Requirements

RULES_FOLDER = "rules"
RULES_SUFFIX = ".rules"
MAX_BYTES = 256 << 10
MAX_FILES = 200


class LoadedRules(Value):
    """`files[at]` is where `rules.prefixes[at]` is from; `warnings` are for a person."""

    rules: RuleSet = RuleSet()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    broken_file: str = ""


def load_layer_rules(layers: Sequence[Layer], held: Requirements = NO_REQUIREMENTS) -> LoadedRules:
    """The rules beside every configuration file that counts, and those that are required.

    A project's are those that were trusted. Raises UsageError for what cannot be read, and while a
    broken file would keep required rules from being known.
    """
    texts: dict[Path, bytes] = {}
    for layer in layers:
        if not layer.source or layer.ignored:
            continue
        folder = Path(layer.source).parent / RULES_FOLDER
        if layer.files is None:
            texts.update((path, _read(path)) for path in _files_in(folder))
        else:
            names = [name for name in layer.files if Path(name).parent == folder]
            texts.update(
                (Path(name), layer.files[name])
                for name in sorted(names)
                if name.endswith(RULES_SUFFIX)
            )
    loaded = load_texts(texts)
    if not held.prefix_rules:
        return loaded
    place = held.place("rules")
    if loaded.broken_file:
        raise UsageError(f"{loaded.rules.broken}; {place} requires rules that can be read")
    prefixes = (*loaded.rules.prefixes, *held.prefix_rules)
    return msgspec.structs.replace(
        loaded,
        rules=msgspec.structs.replace(loaded.rules, prefixes=prefixes),
        files=(*loaded.files, *([place] * len(held.prefix_rules))),
    )


def load_folder_rules(folders: Sequence[Path]) -> LoadedRules:
    """Read `*.rules` of every folder. Raises UsageError, naming it, for what cannot be read."""
    return load_files([path for folder in folders for path in _files_in(folder)])


def load_files(paths: Sequence[Path]) -> LoadedRules:
    """The same for exactly these files. Raises UsageError for one that cannot be read."""
    return load_texts({path: _read(path) for path in paths})


def load_texts(contents: Mapping[Path, bytes]) -> LoadedRules:
    """The same for what was read already, in this order.

    Nothing is started when there are none; otherwise one process, about 30 ms.
    """
    paths = list(contents)
    if not paths:
        return LoadedRules()
    if len(paths) > MAX_FILES:
        raise UsageError(f"{paths[MAX_FILES]}: more than {MAX_FILES} rule files")
    texts: list[str] = []
    for path, content in contents.items():
        try:
            texts.append(content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            return _broken(path, f"not UTF-8 at byte {error.start}", None)
    from .evaluator_client import evaluate_texts  # most runs have no rule files

    reply = evaluate_texts(tuple(texts))
    if reply.broken_at is not None:
        return _broken(paths[reply.broken_at], reply.what, reply.line)
    files = tuple(str(paths[at]) for at in reply.collected.files)
    return LoadedRules(rules=reply.collected.rules(), files=files)


def _files_in(folder: Path) -> list[Path]:
    """Regular files (or links to such), sorted; none if there is no such folder."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from error
    return [folder / name for name in names if name.endswith(RULES_SUFFIX)]


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, limit_bytes=MAX_BYTES)
    except (FileNotFoundError, UsageError) as error:
        why = error if isinstance(error, UsageError) else f"{path}: there is no such file"
        raise UsageError(f"failed to read rules file {why}") from error


def _broken(path: Path, what: str, line: int | None) -> LoadedRules:
    what = " ".join(what.split())[:1000]
    place = f"{path}:{line}" if line else f"{path}"
    broken = f"{place}: {what}"
    warning = (
        f"rules cannot be read, so none is known and everything that one could decide asks: "
        f"{broken}"
    )
    return LoadedRules(
        rules=RuleSet(broken=broken),
        warnings=(warning,),
        broken_file=str(path),
    )
