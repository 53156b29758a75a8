"""`.rules` files → one `Rules` value, with the file that each rule is from.

Rule: all files accumulate and the strictest rule wins, so order decides nothing but the listing.
One broken file and no rule is known at all (`Rules.broken` says file, line and what): half a
policy is not obeyed as if it were the whole. A file that cannot be read is an error.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.rules import Rules

from ..config.merge import Layer

FOLDER = "rules"
SUFFIX = ".rules"
MAX_BYTES = 256 << 10
MAX_FILES = 200


class LoadedRules(Value):
    """`files[at]` is where `rules.prefixes[at]` is from; `warnings` are for a person."""

    rules: Rules = Rules()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    broken_file: str = ""


def rules_of(layers: Sequence[Layer], cwd: Path, warnings: list[str]) -> Rules:
    """The rules beside every configuration file that counts; adds what a person should know.

    Raises UsageError for what cannot be read.
    """
    loaded = load_rules(rule_folders(layers))
    warnings += [*loaded.warnings, *unheeded_rules(layers, cwd)]
    return loaded.rules


def rule_folders(layers: Sequence[Layer]) -> tuple[Path, ...]:
    """The `rules` folder beside each layer's file, lowest precedence first, each once."""
    found = [Path(one.source).parent / FOLDER for one in layers if one.source and not one.ignored]
    return tuple(dict.fromkeys(found))


def unheeded_rules(layers: Sequence[Layer], cwd: Path) -> list[str]:
    """One sentence for each project folder of rules that does not count, from the outermost in."""
    counting = rule_folders(layers)
    folders = [folder / ".swarm" / FOLDER for folder in reversed((cwd, *cwd.parents))]
    return [
        f"{folder}: project rules are not obeyed yet: they need trust in the project"
        for folder in folders
        if folder not in counting and _holds_rules(folder)
    ]


def _holds_rules(folder: Path) -> bool:
    try:
        return bool(_files_in(folder))
    except UsageError:
        return False  # of no consequence, for they are not read


def load_rules(folders: Sequence[Path]) -> LoadedRules:
    """Read `*.rules` of every folder. Raises UsageError, naming it, for what cannot be read."""
    return load_files([path for folder in folders for path in _files_in(folder)])


def load_files(paths: Sequence[Path]) -> LoadedRules:
    """The same for exactly these files, in this order.

    Nothing is started when there are none; otherwise one process, about 30 ms.
    Raises UsageError for a file that cannot be read.
    """
    if not paths:
        return LoadedRules()
    if len(paths) > MAX_FILES:
        raise UsageError(f"{paths[MAX_FILES]}: more than {MAX_FILES} rule files")
    texts: list[str] = []
    for path in paths:
        try:
            texts.append(_read(path))
        except UnicodeDecodeError as error:
            return _broken(path, f"not UTF-8 at byte {error.start}", None)
    from .child import evaluate_texts  # most runs have no rule files

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
    return [folder / name for name in names if name.endswith(SUFFIX)]


def _read(path: Path) -> str:
    complaint = f"failed to read rules file {path}"
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise UsageError(f"{complaint}: it is no regular file")
            with os.fdopen(file, "rb", closefd=False) as stream:
                text = stream.read(MAX_BYTES + 1)
        finally:
            os.close(file)
    except OSError as error:
        raise UsageError(f"{complaint}: {error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise UsageError(f"{complaint}: over {MAX_BYTES >> 10} KiB")
    return text.decode("utf-8-sig")


def _broken(path: Path, what: str, line: int | None) -> LoadedRules:
    what = " ".join(what.split())[:1000]
    place = f"{path}:{line}" if line else f"{path}"
    broken = f"{place}: {what}"
    warning = (
        f"rules cannot be read, so none is known and everything that one could decide asks: "
        f"{broken}"
    )
    return LoadedRules(
        rules=Rules(broken=broken),
        warnings=(warning,),
        broken_file=str(path),
    )
