"""Where the repository is, whatever folder a test lies in."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PROGRAMS = TESTS / "support"  # those of it that tests start as processes
