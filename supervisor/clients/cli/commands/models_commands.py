"""`swarm models list|pull|add`: lists models, downloads model files, adds files. The
gateway's code does the work in a separate process; this module prints its JSON lines.
"""

from pathlib import Path

import click

from ....base.number_format import render_bytes
from ..base.lazy_commands import ColorCommand
from ..base.models_process import ModelLine, own_catalogue_file, query_models
from ..base.printing import print_columns, print_json
from ..base.pull_progress import show_progress
from .models_probe_command import probe_models

_COLUMNS = ("MODEL", "PROVIDER", "WINDOW", "OUTPUT", "$ IN", "$ OUT", "CAN", "ABOUT")
_LISTED = (
    "name", "provider", "default", "context_window", "max_output_tokens", "input_usd_per_million",
    "cached_usd_per_million", "cache_write_usd_per_million", "output_usd_per_million",
    "calls_tools", "parallel_tool_calls", "reasoning", "image_input", "about", "source",
    "size_bytes", "here", "licence",
)  # fmt: skip


@click.group("models")
def models() -> None:
    """List known models, download model files, try a model.

    \b
    Example:
      swarm models list
    """


@models.command("list", cls=ColorCommand)
@click.option("--provider", help="Only the models of this provider.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a model.")
def list_models(provider: str | None, *, as_json: bool) -> None:
    """Known models, and which model files are here.

    \b
    Example:
      swarm models list --provider anthropic
    """
    rows: list[tuple[str, ...]] = []
    for line in query_models("list"):
        if provider is not None and line.provider != provider:
            continue
        if as_json:
            print_json({name: getattr(line, name) for name in _LISTED})
        about = line.about
        if line.size_bytes:
            state = "here" if line.here else "swarm models pull"
            about = f"{about} ({render_bytes(line.size_bytes)}, {line.licence}; {state})"
        rows.append(
            (
                f"{line.name}{' *' if line.default else ''}",
                line.provider or "any",
                _tokens(line.context_window),
                _tokens(line.max_output_tokens),
                _price(line.input_usd_per_million),
                _price(line.output_usd_per_million),
                _abilities(line),
                f"{about} [{line.source}]" if line.source else about,
            )
        )
    if not as_json:
        print_columns(_COLUMNS, rows, fits=True)


def _tokens(count: int | None) -> str:
    if count is None:
        return "-"
    return f"{count / 1e6:.3g}M" if count >= 1_000_000 else f"{count // 1000}k"


def _price(usd: float | None) -> str:
    return "-" if usd is None else f"{usd:g}"


def _abilities(line: ModelLine) -> str:
    given = {"tools": line.calls_tools, "parallel": line.parallel_tool_calls,
            "thinks": line.reasoning, "images": line.image_input}  # fmt: skip
    return " ".join(word for word, able in given.items() if able) or "-"


@models.command("pull", cls=ColorCommand)
@click.argument("name")
@click.option(
    "--file", type=click.Path(path_type=Path), help="A file that is here already; it is checked."
)
@click.option("--json", "as_json", is_flag=True, help="Progress as JSON lines.")
def pull_model(name: str, file: Path | None, *, as_json: bool) -> None:
    """Download a model file; a broken download continues where it stopped.

    \b
    Example:
      swarm models pull smollm2
    """
    if file is None:
        lines = query_models("pull", name)
    else:
        lines = query_models("link", name, str(file.absolute()))
    done = show_progress(lines, f"pulling {name}", as_json=as_json)
    if not as_json:
        click.echo(done.path)


@models.command("add", cls=ColorCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", default="", help="The model's name. Default: made from the file's name.")
@click.option("--json", "as_json", is_flag=True, help="Progress as JSON lines.")
def add_model(file: Path, name: str, *, as_json: bool) -> None:
    """Make a GGUF file a model of the provider local. The file stays where it is.

    \b
    Example:
      swarm models add qwen3-coder.gguf --name qwen3
    """
    lines = query_models("add", str(file.absolute()), name, str(own_catalogue_file()))
    done = show_progress(lines, f"checking {file.name}", as_json=as_json)
    if not as_json:
        click.echo(f"added {done.name}; try it: swarm run -m {done.name} --provider local TASK")


models.add_command(probe_models)
