"""Print the test files that a change may break, nearest first: `changed_tests.py [BASE]`.

A change is what differs from BASE (default: where this branch left `origin/main`, else the last
commit) and what is not tracked yet. Its tests are those of the folders that it touches, those
that import a changed module, and those that import a module that imports a changed one. A table
or a prompt beside the code counts as the modules of its folder that name it. Tests
with real processes count only where they were changed or import a changed module themselves, but
not a module that many of them import to read what a run left; and one whole run always:
`scripts/test` without arguments runs them all.
"""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

PACKAGES = ("mailbox", "roles", "worker", "supervisor")
EVERYTHING = frozenset({"tests/conftest.py", "pyproject.toml", "constraints.txt"})
_MOST_LIVE = 12  # a module that more live tests import is a word of them all, such as records
# One run from end to end, for every change of the product.
A_WHOLE_RUN = "tests/live/test_run_whole.py"


def main(arguments: list[str]) -> int:
    """Print one path a line; nothing where no test is concerned."""
    base = arguments[0] if arguments else _default_base()
    try:
        changed = changed_files(base)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"scripts/test --changed: git cannot compare with {base!r}: ")
        sys.stderr.write(f"{error.stderr.strip().splitlines()[0]}\n")
        return 2
    print(*select_tests(changed, tracked_python_files()), sep="\n")
    return 0


def select_tests(changed: set[str], files: list[str]) -> list[str]:
    """The test files among `files` that concern `changed`, sorted.

    Args:
        changed: paths from the root of the checkout, also of removed files.
        files: every Python file of the checkout.
    """
    tests = [name for name in files if is_test(name)]
    if changed & EVERYTHING:
        return [name for name in tests if not is_live(name)]
    touched = {module for name in changed if (module := module_of(name))}
    touched |= {module for name in files if _reads_a(changed, name) and (module := module_of(name))}
    near = touched | {
        module
        for name in files
        if name.split("/", 1)[0] in PACKAGES and imports_of(name) & touched
        if (module := module_of(name))
    }
    own = touched - _words_of_live_tests(tests)
    folders = {f"tests/{Path(name).parent}" for name in changed if _is_of_product(name)}
    helpers = {Path(name).stem for name in changed if name.startswith("tests/support/")}
    found = [
        name
        for name in tests
        if name in changed
        or _uses_helper(name, helpers)
        or imports_of(name) & (own if is_live(name) else near)
        or (not is_live(name) and str(Path(name).parent) in folders)
    ]
    if any(name.endswith(".md") for name in changed):
        found.append("tests/test_docs.py")
    if touched:
        found.append(A_WHOLE_RUN)
    return sorted(set(found))


def _words_of_live_tests(tests: list[str]) -> set[str]:
    uses = Counter(module for name in tests if is_live(name) for module in imports_of(name))
    return {module for module, count in uses.items() if count > _MOST_LIVE}


def is_test(name: str) -> bool:
    return name.startswith("tests/") and Path(name).name.startswith("test_")


def is_live(name: str) -> bool:
    return name.startswith("tests/live/")


def module_of(name: str) -> str | None:
    """`swarm.roles.rights.role` for `roles/rights/role.py`; None for what is no module."""
    path = Path(name)
    if path.parts[0] not in PACKAGES or path.suffix != ".py":
        return None
    parts = [*path.parts[:-1], path.stem]
    return ".".join(["swarm", *(parts[:-1] if path.stem == "__init__" else parts)])


@cache
def imports_of(name: str) -> frozenset[str]:
    """The modules of this project that a file imports, at its top or inside functions."""
    try:
        tree = ast.parse(Path(name).read_bytes())
    except (OSError, SyntaxError):
        return frozenset()
    package = ["swarm", *Path(name).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            lead = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*lead, *([node.module] if node.module else [])])
            found.add(source)
            found.update(f"{source}.{alias.name}" for alias in node.names)
    return frozenset(module for module in found if module.startswith("swarm."))


@cache
def _words_of(name: str) -> str:
    return Path(name).read_text(encoding="utf-8")


def _is_of_product(name: str) -> bool:
    return name.split("/", 1)[0] in PACKAGES


def _reads_a(changed: set[str], name: str) -> bool:
    """True for a module that names a changed table or prompt beside it."""
    folder = Path(name).parent
    beside = (Path(one) for one in changed if _is_of_product(one) and not one.endswith(".py"))
    return any(one.parent == folder and one.name in _words_of(name) for one in beside)


def _uses_helper(name: str, helpers: set[str]) -> bool:
    return any(f"support.{helper}" in _words_of(name) for helper in helpers)


def changed_files(base: str) -> set[str]:
    """Paths that differ from `base` or are not tracked, from the root of the checkout."""
    differs = _git("diff", "--name-only", "-z", base, "--").split("\0")
    new = _git("ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return {name for name in (*differs, *new) if name}


def tracked_python_files() -> list[str]:
    """Tracked and new Python files that exist."""
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.py")
    return [name for name in listed.split("\0") if name and Path(name).is_file()]


def _default_base() -> str:
    for name in ("origin/main", "origin/HEAD"):
        found = subprocess.run(
            ["git", "merge-base", "HEAD", name], capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            return found.stdout.strip()
    return "HEAD"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
