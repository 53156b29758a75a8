"""`swarm models …` behind the door: one JSON object a line, drawn by the command line above.

Started as a process of its own: `python -P -m swarm.worker.gateway.models_cli VERB …`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from swarm.mailbox.errors import SwarmError

from .fetch import fetch_weights
from .weights import find_weights, known_weights, load_weights

_USAGE = "usage: models_cli list|pull MODELS_DIR [NAME] [CATALOGUE…]"


def _say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def list_models(models_dir: Path, additions: list[str]) -> None:
    """One line a model file: name, size, whether it is here, what it is."""
    for name, entry in sorted(load_weights(additions).items()):
        here = find_weights(models_dir, name, additions) is not None
        _say(
            type="model",
            name=name,
            size_bytes=entry.size_bytes,
            here=here,
            licence=entry.licence,
            about=entry.about,
            calls_tools=entry.can_call_tools,
            context_window=entry.context_window,
        )


def pull_model(models_dir: Path, name: str, additions: list[str]) -> None:
    """Fetch one; `progress` lines, then `done` with the path."""
    entry = known_weights(name, additions)
    there = find_weights(models_dir, name, additions)
    if there is not None:
        _say(type="done", path=str(there), fetched=False)
        return
    last = -1

    def progress(have: int, total: int) -> None:
        nonlocal last
        step = have * 200 // total if total else have >> 20
        if step != last:
            last = step
            _say(type="progress", have=have, total=total)

    path = fetch_weights(name, entry, models_dir, progress)
    _say(type="done", path=str(path), fetched=True)


def main(arguments: list[str]) -> int:
    """0 done, 2 bad usage, 5 no source gave the file; the reason goes out as an `error` line."""
    try:
        match arguments:
            case ["list", folder, *additions]:
                list_models(Path(folder), additions)
            case ["pull", folder, name, *additions]:
                pull_model(Path(folder), name, additions)
            case _:
                _say(type="error", message=_USAGE)
                return 2
    except SwarmError as error:
        _say(type="error", message=str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
