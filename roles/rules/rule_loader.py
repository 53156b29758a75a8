"""Loads `.rules` files into one `RuleSet`, with the file of each rule.

The rules of all files apply and the strictest wins, so order only affects listings. If one file is
broken no rule is used (`RuleSet.broken` names file, line and error), because part of a policy must
not pass for the whole. An unreadable file is an error.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.rules import RuleSet
from swarm.mailbox.protocol.values.base import Value

from ..config.file_reading import read_bounded
from ..config.layers.merge import Layer
from ..config.layers.requirements import NO_REQUIREMENTS, Requirements

RULES_FOLDER = "rules"
RULES_SUFFIX = ".rules"
MAX_BYTES = 256 << 10
MAX_FILES = 200


class LoadedRules(Value):
    """`files[at]` is the file of `rules.prefixes[at]`; `warnings` are for people."""

    rules: RuleSet = RuleSet()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    broken_file: str = ""


def load_layer_rules(
    layers: Sequence[Layer], required: Requirements = NO_REQUIREMENTS
) -> LoadedRules:
    """The rules beside every active configuration file, and the required rules.

    A project's rules are those that were trusted. Raises UsageError for an unreadable file, and for
    a broken file if there are required rules, which would be lost.
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
    if not required.prefix_rules:
        return loaded
    place = required.place("rules")
    if loaded.broken_file:
        raise UsageError(f"{loaded.rules.broken}; {place} requires rules that can be read")
    prefixes = (*loaded.rules.prefixes, *required.prefix_rules)
    return msgspec.structs.replace(
        loaded,
        rules=msgspec.structs.replace(loaded.rules, prefixes=prefixes),
        files=(*loaded.files, *([place] * len(required.prefix_rules))),
    )


def load_files(paths: Sequence[Path]) -> LoadedRules:
    """The rules of exactly these files. Raises UsageError, with the path, for an unreadable one."""
    return load_texts({path: _read(path) for path in paths})


def load_texts(contents: Mapping[Path, bytes]) -> LoadedRules:
    """As `load_files`, for contents already read, in this order.

    Starts one process, which takes about 30 ms; none if there are no files.
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
    """Regular files (or links to such), sorted; none if the folder does not exist."""
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
