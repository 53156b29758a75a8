"""Finds what is installed: every folder of Python files. No setuptools: tests ask, too."""

from collections.abc import Mapping
from pathlib import Path


def package_folders(root: Path, package_dir: Mapping[str, str]) -> dict[str, Path]:
    """Package → folder, of each package of this table and of all that lies below it."""
    return {
        ".".join((package, *folder.relative_to(root / top).parts)): folder
        for package, top in package_dir.items()
        for folder in sorted({path.parent for path in (root / top).rglob("*.py")})
    }
