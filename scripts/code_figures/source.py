"""The product's files as syntax trees. Nothing of the tree that is measured is imported or run."""

import ast
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("mailbox", "roles", "worker", "supervisor")


@dataclass(frozen=True)
class Source:
    """One Python file of the product."""

    path: Path  # relative to the tree: supervisor/clients/cli/commands/run_command.py
    lines: int
    tree: ast.Module

    @property
    def package(self) -> str:
        """The top-level package: supervisor."""
        return self.path.parts[0]

    @property
    def module(self) -> str:
        """The name by which others import it: swarm.supervisor.clients.cli.commands.run_command."""
        parts = self.path.with_suffix("").parts
        return ".".join(("swarm", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def read_sources(root: Path) -> list[Source]:
    """Every file of the four packages below `root`, in order of paths.

    Raises:
        SyntaxError: A file is not Python.
        FileNotFoundError: No package of the product is there.
    """
    found: list[Source] = []
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text, str(path))
            found.append(Source(path.relative_to(root), len(text.splitlines()), tree))
    if not found:
        raise FileNotFoundError(f"{root}: none of the folders {', '.join(PACKAGES)} is here")
    return found
