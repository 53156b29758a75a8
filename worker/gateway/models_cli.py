"""The process behind `swarm models …`: prints one JSON object per line, which the CLI renders.

It runs as `python -P -m swarm.worker.gateway.models_cli VERB …`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError

from .added_model import add_model, link_known_model
from .fetch import fetch_weights
from .model_catalogue import load_catalogue
from .weights import find_weights, known_weights, load_weights

_USAGE = "usage: models_cli list|pull|link|add MODELS_DIR … [CATALOGUE…]"


def _print_json(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def list_models(models_dir: Path, additions: list[str]) -> None:
    """One line per model: its properties; for a model file also its size and whether it is here."""
    weights = load_weights(additions)
    catalogue = load_catalogue(additions)
    for name, entry in sorted(catalogue.entries.items(), key=lambda one: (one[1].provider, one[0])):
        file = weights.get(name)
        here = file is not None and find_weights(models_dir, name, additions) is not None
        _print_json(
            type="model",
            name=name,
            provider=entry.provider,
            default=entry.default,
            about=entry.title,
            context_window=entry.context_window,
            max_output_tokens=entry.max_output_tokens,
            input_usd_per_million=entry.input_usd_per_million,
            cached_usd_per_million=entry.cached_usd_per_million,
            cache_write_usd_per_million=entry.cache_write_usd_per_million,
            output_usd_per_million=entry.output_usd_per_million,
            calls_tools=entry.can_call_tools,
            parallel_tool_calls=entry.parallel_tool_calls,
            reasoning=entry.reasoning,
            image_input=entry.image_input,
            source=catalogue.sources.get(name, ""),
            size_bytes=0 if file is None else file.size_bytes,
            here=here,
            licence="" if file is None else file.licence,
        )


def pull_model(models_dir: Path, name: str, additions: list[str]) -> None:
    """Download a model file; prints `progress` lines, then `done` with the path."""
    entry = known_weights(name, additions)
    there = find_weights(models_dir, name, additions)
    if there is not None:
        _print_json(type="done", name=name, path=str(there), fetched=False)
        return
    path = fetch_weights(name, entry, models_dir, _progress_lines())
    _print_json(type="done", name=name, path=str(path), fetched=True)


def link_model(models_dir: Path, name: str, file: Path, additions: list[str]) -> None:
    """Use a file that is here as a known model's; prints `progress` lines, then `done`."""
    path = link_known_model(models_dir, name, file, additions, _progress_lines())
    _print_json(type="done", name=name, path=str(path), fetched=False)


def add_file(
    models_dir: Path, file: Path, name: str, catalogue: Path, additions: list[str]
) -> None:
    """Enter a file as a new model; prints `progress` lines, then `done` with its name."""
    progress = _progress_lines()
    name, path = add_model(models_dir, file, additions, progress, name=name, catalogue=catalogue)
    _print_json(type="done", name=name, path=str(path), fetched=False)


def _progress_lines() -> Callable[[int, int], None]:
    """Prints a line for each half percent."""
    last = -1

    def progress(have: int, total: int) -> None:
        nonlocal last
        step = have * 200 // total if total else have >> 20
        if step != last:
            last = step
            _print_json(type="progress", have=have, total=total)

    return progress


def main(arguments: list[str]) -> int:
    """Exit codes: 0 done, 2 bad usage, 5 no answer; an `error` line holds the reason."""
    try:
        match arguments:
            case ["list", folder, *additions]:
                list_models(Path(folder), additions)
            case ["pull", folder, name, *additions]:
                pull_model(Path(folder), name, additions)
            case ["link", folder, name, file, *additions]:
                link_model(Path(folder), name, Path(file), additions)
            case ["add", folder, file, name, catalogue, *additions]:
                add_file(Path(folder), Path(file), name, Path(catalogue), additions)
            case _:
                _print_json(type="error", message=_USAGE)
                return 2
    except SwarmError as error:
        _print_json(type="error", message=str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
