"""Terminal settings: colour, page width, and which of the three displays shows a run.

`NO_COLOR`, `FORCE_COLOR`, `CLICOLOR`, `TERM=dumb`, `COLUMNS` and `--color` have the same effect
everywhere. Rich is not imported here: not every command needs it.
"""

from collections.abc import Mapping
from typing import Literal, TextIO

ColorChoice = Literal["auto", "always", "never"]
DisplayChoice = Literal["json", "plain", "live"]


def choose_display(
    *, as_json: bool, plain: bool, stdout_is_tty: bool, environment: Mapping[str, str]
) -> DisplayChoice:
    """The live tree only on a terminal that can redraw; `--json` wins over `--plain`."""
    if as_json:
        return "json"
    if plain or not stdout_is_tty or is_ci(environment) or environment.get("TERM") == "dumb":
        return "plain"
    return "live"


def is_ci(environment: Mapping[str, str]) -> bool:
    """True if `CI` is set to anything but a no: then no prompts and no live view."""
    return environment.get("CI", "").lower() not in {"", "0", "false", "no"}


def decide_color(choice: ColorChoice, *, environment: Mapping[str, str], is_terminal: bool) -> bool:
    """`--color` wins over the environment; there, `NO_COLOR` wins over variables that force
    colour.
    """
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    forced = (environment.get(name, "") for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
    if any(value not in {"", "0"} for value in forced):
        return True
    if environment.get("FORCE_COLOR") == "0" or environment.get("CLICOLOR") == "0":
        return False
    return is_terminal and environment.get("TERM") != "dumb"


def page_width(environment: Mapping[str, str]) -> int | None:
    """`COLUMNS` if it is a number, at least 20; None: ask the terminal."""
    columns = environment.get("COLUMNS", "")
    return max(int(columns), 20) if columns.isascii() and columns.isdigit() else None


def is_terminal(stream: TextIO) -> bool:
    """True for a terminal; False also for streams that are closed or have no file."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError, OSError):
        return False
