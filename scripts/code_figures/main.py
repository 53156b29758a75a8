"""The figures that say how easily a stranger finds the way; a table, `--json`, or `--check`.

The journeys stand in docs/architecture.md: below a heading that begins with `Journey`, each hop is
written as `file.py:function` in backticks. The different files below each heading are counted.

`--check` compares with `[tool.code-figures]` of pyproject.toml: what a figure may be at most.
"""

import argparse
import json
import re
import statistics
import sys
import tomllib
from pathlib import Path

from functions import long_functions, type_checker_imports
from import_cycles import import_circles
from late_wiring import late_wiring, outside_sets, placeholders
from names import repeated_classes, shared_base_names
from purity import pure_modules, unheld_claims
from source import read_sources

SMALL_LINES = 60
_HEADING = re.compile(r"^#+ +(Journey\b.*?)\s*$")
_HOP = re.compile(r"`([\w/.-]+\.py):\w[\w.]*`")
_PATH_EDIT = re.compile(r"^\s*sys\.path\.insert\(", re.MULTILINE)


def main() -> int:
    """Print the figures of one tree."""
    parser = argparse.ArgumentParser(prog="scripts/measure-code", description=__doc__)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--json", action="store_true", help="the figures as one JSON object")
    parser.add_argument("--names", action="store_true", help="also what was counted, by name")
    parser.add_argument(
        "--check", action="store_true", help="fail where a figure is over its limit"
    )
    args = parser.parse_args()
    try:
        figures, details = measure(args.tree)
    except (OSError, SyntaxError) as error:
        print(f"measure-code: {error}", file=sys.stderr)
        return 2
    if args.check:
        return check(figures, details, args.tree)
    if args.json:
        print(json.dumps({**figures, "names": details} if args.names else figures, indent=2))
        return 0
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):<38} {value if value is not None else '-':>8}")
        for line in details.get(name, ()) if args.names else ():
            print(f"    {line}")
    return 0


def check(figures: dict[str, int | None], details: dict[str, list[str]], root: Path) -> int:
    """Print each figure that is over its limit, and those whose limit can be lowered; 1 if over."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    is_over = False
    for name, limit in settings["tool"]["code-figures"].items():
        value = figures[name] or 0
        if value > limit:
            is_over = True
            print(f"{name}: {value}, and {limit} are allowed", *details[name], sep="\n    ")
        elif value < limit:
            print(f"{name}: {value}; lower its limit ({limit}) in pyproject.toml")
    return int(is_over)


def measure(root: Path) -> tuple[dict[str, int | None], dict[str, list[str]]]:
    """The figures of the tree at `root`, and by the same names what was counted."""
    sources = read_sources(root)
    lines = [source.lines for source in sources]
    small = [str(source.path) for source in sources if source.lines < SMALL_LINES]
    circles = import_circles(sources)
    details = {
        f"files_under_{SMALL_LINES}_lines": small,
        "base_names_shared_in_one_package": _told(shared_base_names(sources, by_package=True)),
        "base_names_shared_in_the_project": _told(shared_base_names(sources, by_package=False)),
        "public_classes_defined_twice": _told(repeated_classes(sources)),
        "import_circles": [" ".join(circle) for circle in circles],
        "modules_in_import_circles": [module for circle in circles for module in circle],
        "fields_set_in_other_files": outside_sets(sources),
        "callables_wired_after_construction": late_wiring(sources),
        "lambda_placeholders": placeholders(sources),
        "imports_for_the_type_checker_alone": type_checker_imports(sources),
        "functions_over_40_lines": long_functions(sources),
        "docstrings_that_say_pure_without_a_contract": unheld_claims(sources, pure_modules(root)),
        "test_files_that_edit_sys_path": _tests_that_edit_the_path(root),
    }
    figures: dict[str, int | None] = {
        "lines_of_product_code": sum(lines),
        "files": len(lines),
        "lines_of_the_median_file": round(statistics.median(lines)),
        **{name: len(found) for name, found in details.items()},
    }
    journeys = _journeys(root / "docs" / "architecture.md")
    figures["journeys_described"] = len(journeys)
    for name, files in journeys.items():
        figures[f"files: {name}"] = len(files)
        details[f"files: {name}"] = files
    return figures, details


def _told(shared: dict[str, list[str]]) -> list[str]:
    return [f"{name}: {' '.join(files)}" for name, files in shared.items()]


def _tests_that_edit_the_path(root: Path) -> list[str]:
    return [
        str(path.relative_to(root))
        for path in sorted((root / "tests").rglob("*.py"))
        if _PATH_EDIT.search(path.read_text(encoding="utf-8"))
    ]


def _journeys(page: Path) -> dict[str, list[str]]:
    """Heading → its files, in order, each once."""
    found: dict[str, list[str]] = {}
    files: list[str] | None = None
    for line in page.read_text(encoding="utf-8").splitlines() if page.is_file() else ():
        if line.startswith("#"):
            heading = _HEADING.match(line)
            files = found.setdefault(heading.group(1), []) if heading else None
        elif files is not None:
            files += [name for name in _HOP.findall(line) if name not in files]
    return {name: list(dict.fromkeys(hops)) for name, hops in found.items()}


if __name__ == "__main__":
    sys.exit(main())
