"""Shows how far the download of a model file is."""

import sys
from collections.abc import Iterator
from itertools import chain

import click

from .models_process import ModelLine
from .printing import print_json


def show_progress(lines: Iterator[ModelLine], label: str, *, as_json: bool) -> ModelLine:
    """A bar, where something takes time, or the lines as JSON; returns the last line."""
    last = first = next(lines, ModelLine(type=""))
    hidden = as_json or first.type != "progress"
    with click.progressbar(length=1000, label=label, file=sys.stderr, hidden=hidden) as bar:
        for line in chain((first,), lines):
            if as_json:
                fields = ("type", "have", "total") if line.type == "progress" else ("type", "path")
                print_json({field: getattr(line, field) for field in fields})
            elif line.type == "progress" and line.total:
                bar.update(max(line.have * 1000 // line.total - bar.pos, 0))
            last = line
        bar.update(max(1000 - bar.pos, 0))
    return last
