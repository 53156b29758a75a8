"""The figures that say how easily a stranger finds the way; a table, `--json`, or `--check`.

The journeys stand in docs/architecture.md: below a heading that begins with `Journey`, each hop is
written as `file.py:function` in backticks. The different files below each heading are counted, and
with them those that hold what the hops' functions name.

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
from import_cycles import folder_circles, import_circles
from journeys import files_of, files_with_helpers, journeys
from late_wiring import late_wiring, outside_sets, placeholders
from names import repeated_classes, shared_base_names
from purity import pure_modules, unheld_claims
from source import Source, read_sources
from widths import WIDEST, copied_fields, part_users, widest_structs

SMALL_LINES = 60
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
        print(f"{name.replace('_', ' '):<48} {value if value is not None else '-':>8}")
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
    deferred = import_circles(sources, inside_functions=True)
    folders = folder_circles(sources)
    details = {
        f"files_under_{SMALL_LINES}_lines": small,
        "base_names_shared_in_one_package": _told(shared_base_names(sources, by_package=True)),
        "base_names_shared_in_the_project": _told(shared_base_names(sources, by_package=False)),
        "public_classes_defined_twice": _told(repeated_classes(sources)),
        "import_circles": [" ".join(circle) for circle in circles],
        "modules_in_import_circles": _members(circles),
        "modules_in_circles_with_imports_inside_functions": _members(deferred),
        "folder_circles": [" ".join(circle) for circle in folders],
        "folders_in_circles": _members(folders),
        "fields_set_in_other_files": outside_sets(sources),
        "fields_copied_by_hand": copied_fields(sources),
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
    _add_widths(figures, details, root, sources)
    described = journeys(root / "docs" / "architecture.md")
    figures["journeys_described"] = len(described)
    for name, hops in described.items():
        for kind, files in (
            ("files", files_of(hops)),
            ("files with helpers", files_with_helpers(hops, sources)),
        ):
            figures[f"{kind}: {name}"] = len(files)
            details[f"{kind}: {name}"] = files
    return figures, details


def _add_widths(
    figures: dict[str, int | None],
    details: dict[str, list[str]],
    root: Path,
    sources: list[Source],
) -> None:
    structs = widest_structs(sources)
    figures["fields_of_the_widest_struct"] = structs[0][0] if structs else 0
    details["fields_of_the_widest_struct"] = [f"{place}: {n}" for n, place in structs[:WIDEST]]
    users = part_users(root, sources)
    figures["files_outside_of_a_part_that_name_it"] = max(map(len, users.values()), default=0)
    details["files_outside_of_a_part_that_name_it"] = [
        f"{part} ({len(files)}): {' '.join(files)}" for part, files in users.items()
    ]


def _members(circles: list[list[str]]) -> list[str]:
    return [one for circle in circles for one in circle]


def _told(shared: dict[str, list[str]]) -> list[str]:
    return [f"{name}: {' '.join(files)}" for name, files in shared.items()]


def _tests_that_edit_the_path(root: Path) -> list[str]:
    return [
        str(path.relative_to(root))
        for path in sorted((root / "tests").rglob("*.py"))
        if _PATH_EDIT.search(path.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    sys.exit(main())
