"""Which changed files no longer parse. Run by itself, in the sandbox: it imports nothing of swarm.

`python -I -S syntax_check.py OLD [NEW]` in a repository compares the files of the commit OLD with
those of NEW, without NEW with the working tree. It prints `broken PATH: why` for each that does not
parse now and did before, or is new. Nothing of a file is executed; what it cannot judge it leaves
out.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable

MOST_FILES, MOST_BYTES, MOST_BROKEN = 200, 1 << 20, 20
_LIMIT_S = 5.0
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager")
_WITH_COMMENTS = ("tsconfig", "jsconfig", "settings", "launch", "devcontainer")  # no strict JSON
# Programs that only parse: the file is their standard input.
_PARSERS: dict[str, tuple[str, ...]] = {
    ".sh": ("bash", "-n"), ".bash": ("bash", "-n"),
    ".mjs": ("node", "--check", "--input-type=module", "-"), ".cjs": ("node", "--check", "-"),
    ".php": ("php", "-l"), ".go": ("gofmt", "-e", "-l"),
}  # fmt: skip


def main(arguments: list[str]) -> int:
    old, new = arguments[0], arguments[1] if len(arguments) > 1 else ""
    count = 0
    for path in _changed(old, new)[:MOST_FILES]:
        if not (why := _fault(path, _content(new, path))):
            continue
        before = _content(old, path)
        if before is not None and _fault(path, before):
            continue  # it did not parse before either
        print(f"broken {json.dumps(path)[1:-1]}: {' '.join(why.split())[:200]}")  # noqa: T201
        count += 1
        if count >= MOST_BROKEN:
            break
    return 0


def _changed(old: str, new: str) -> list[str]:
    """Paths of changed and new files, relative to the repository's root; removed ones left out."""
    common = ("diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--name-only", "-z")
    found = _git(*common, "--diff-filter=d", old, *((new,) if new else ()))
    if not new:
        found += _git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", ":/")
    return [os.fsdecode(one) for one in found.split(b"\0") if one]


def _content(commit: str, path: str) -> bytes | None:
    """The file of a commit, "" for the working tree; None: there is none, or it is too large."""
    if commit:
        data = _git("cat-file", "blob", f"{commit}:{path}")
        return data if data and len(data) <= MOST_BYTES else None
    try:
        if os.path.islink(path) or not os.path.isfile(path):  # noqa: PTH113, PTH114
            return None
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= MOST_BYTES else None


def _git(*words: str) -> bytes:
    done = subprocess.run([*_GIT, *words], capture_output=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else b""


def _fault(path: str, data: bytes | None) -> str:
    """Why the content does not parse; "" if it does, or nobody here can say."""
    if data is None:
        return ""
    name, suffix = os.path.basename(path), os.path.splitext(path)[1]  # noqa: PTH119, PTH122
    if suffix == ".json" and name.startswith(_WITH_COMMENTS):
        return ""
    try:
        if (parse := _READERS.get(suffix)) is not None:
            parse(data)
        elif (argv := _PARSERS.get(suffix)) is not None and shutil.which(argv[0]):
            return _run_parser(argv, data)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except RecursionError:
        return ""
    except ValueError as error:
        return str(error)
    return ""


def _run_parser(argv: tuple[str, ...], data: bytes) -> str:
    try:
        done = subprocess.run(argv, input=data, capture_output=True, check=False, timeout=_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = (done.stderr or done.stdout).decode(errors="replace").strip()
    return (text or f"{argv[0]} refuses it") if done.returncode else ""


def _parse_python(data: bytes) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(data)


_READERS: dict[str, Callable[[bytes], object]] = {
    ".py": _parse_python,
    ".pyi": _parse_python,
    ".json": json.loads,
    ".toml": lambda data: tomllib.loads(data.decode()),
}

if __name__ == "__main__":
    os.chdir(os.fsdecode(_git("rev-parse", "--show-toplevel").rstrip(b"\n")) or ".")
    sys.exit(main(sys.argv[1:]))
