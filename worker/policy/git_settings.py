"""Whether agents could change git's settings, and so what it runs. Reads the disk.

Git is told by its settings which programs to run: hooks, filters, helpers, another `upload-pack`.
A git command runs outside of a sandbox only where all of these are a person's: the repository's own
folder and files, the files that they include, and each path that a setting names.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from swarm.mailbox.base.held_programs import why_unheld
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.base.writable_places import WritablePlaces

_MOST_LEVELS = 64
_MOST_FILES = 32
_MOST_BYTES = 256 << 10
_WORD = re.compile(r"""[^\s"'=;&|()<>!]+""")
_SETTINGS = ("config", "config.worktree")
# What lies in a repository's folder and decides what is run, or which repository it is.
_PARTS = ("hooks", "info", "HEAD", "commondir", "gitdir", "modules", "objects")


def why_git_unheld(folder: str, home: str, places: WritablePlaces) -> str:
    """Why agents could change what git runs in this folder; "" if they cannot."""
    top, own, common = _find_repository(folder)
    if own:
        link = f"{top}/.git"
        parts = (
            *([link] if os.path.lexists(link) else []),
            *(f"{one}/{name}" for one in {own, common} for name in ("", *_PARTS, *_SETTINGS)),
        )
        for path in parts:
            if why := why_unheld(path.rstrip("/"), places):
                return f"git's own data can be changed there: {why}"
    files = [f"{one}/{name}" for one in dict.fromkeys((common, own)) if one for name in _SETTINGS]
    files += ["/etc/gitconfig", f"{home}/.gitconfig", f"{home}/.config/git/config"]
    return _why_settings_unheld(files, top or folder, home, places)


def _find_repository(folder: str) -> tuple[str, str, str]:
    """The worktree's top, the repository's folder and its common one, as git finds them; or ""."""
    here = os.path.realpath(folder)
    for _ in range(_MOST_LEVELS):
        link = f"{here.rstrip('/')}/.git"
        own = _target(link) if os.path.lexists(link) else here if _looks_bare(here) else ""
        if own:
            return here, own, _common(own)
        if here == "/":
            break
        here = os.path.dirname(here)  # noqa: PTH120 - text
    return "", "", ""


def _target(link: str) -> str:
    """The repository's folder: `.git` itself, or what a file of this name leads to."""
    if Path(link).is_dir():
        return os.path.realpath(link)
    text = _read(link).strip()
    path = text.removeprefix("gitdir:").strip() or "."
    return os.path.realpath(os.path.join(os.path.dirname(link), path))  # noqa: PTH118, PTH120


def _looks_bare(folder: str) -> bool:
    """Git takes a folder with these names for a repository, also inside of another one."""
    return all(os.path.lexists(f"{folder}/{name}") for name in ("HEAD", "objects", "refs"))


def _common(own: str) -> str:
    text = _read(f"{own}/commondir").strip()
    return os.path.realpath(os.path.join(own, text)) if text else own  # noqa: PTH118


def _why_settings_unheld(files: list[str], top: str, home: str, places: WritablePlaces) -> str:
    """Why agents could change one of the files, one that it includes, or a path that it names."""
    seen: set[str] = set()
    while files and len(seen) < _MOST_FILES:
        path = files.pop()
        if path in seen or not os.path.lexists(path):
            continue
        seen.add(path)
        if why := why_unheld(path, places):
            return f"it is a file of git's settings: {why}"
        for key, value in _entries(_read(path)):
            for named in _named_paths(key, value, top, path, home):
                if why := why_unheld(named, places):
                    return f"git's setting {key} in {path} leads there: {why}"
                if key == "path":
                    files.append(named)
    return "git's settings include too many files" if files else ""


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """(key, value) of each line, without its section: `path` is that of an include."""
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"^\s*\[[^\]]*\]", "", line)
        key, _, value = line.partition("=")
        name = key.strip().lower()
        if name and not name.startswith(("#", ";")):
            yield name, value.strip()


def _named_paths(key: str, value: str, top: str, file: str, home: str) -> Iterator[str]:
    """Paths that a value may name; relative ones are taken from the worktree, or the file."""
    if key in ("hookspath", "path", "attributesfile", "excludesfile", "templatedir", "worktree"):
        words = [value.strip('"')]
    elif key in (
        "url",
        "pushurl",
        "fetch",
        "push",
        "merge",
        "remote",
        "insteadof",
        "pushinsteadof",
    ):
        return  # addresses and names of branches, of which none is run
    else:
        words = [word for word in _WORD.findall(value) if "/" in word or word.startswith(".")]
    for word in words[:50]:
        if not word or "://" in word:
            continue
        word = f"{home}{word[1:]}" if word.startswith("~/") else word
        base = os.path.dirname(file) if key == "path" else top  # noqa: PTH120 - text
        yield os.path.normpath(os.path.join(base, word))  # noqa: PTH118 - text


def _read(path: str) -> str:
    try:
        return read_user_file(Path(path), most_bytes=_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
