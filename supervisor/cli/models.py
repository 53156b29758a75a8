"""`swarm models list|pull|probe`: model files and servers. The work is done by the gateway's code,
started as a process of its own; here its JSON lines are drawn.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from swarm.mailbox.errors import SwarmError
from swarm.roles.config.load import load_config

from ..console.amounts import render_bytes
from ..places import find_places
from .checks_providers import check_providers
from .doors import DoorCommand
from .holding import find_requirements
from .layers import Wanted, find_layers
from .printing import print_columns, print_json
from .settings import find_cwd

_CLI = ("-P", "-m", "swarm.worker.gateway.models_cli")


class ModelsFailed(SwarmError):
    """The other process said no; its words and exit code."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.exit_code = code


class _Line(msgspec.Struct):
    """One line of the other process; fields as its `type` has them."""

    type: str
    message: str = ""
    name: str = ""
    size_bytes: int = 0
    here: bool = False
    licence: str = ""
    about: str = ""
    calls_tools: bool = False
    context_window: int = 0
    have: int = 0
    total: int = 0
    path: str = ""
    fetched: bool = False


_decode = msgspec.json.Decoder(_Line).decode


@click.group("models")
def models() -> None:
    """Model files for the embedded provider.

    \b
    Example:
      swarm models list
    """


def _catalogues() -> list[str]:
    folder = find_places(dict(os.environ)).config
    paths = (Path("/etc/swarm/models.toml"), folder / "models.toml")
    return [str(path) for path in paths if path.is_file()]


def ask_models(verb: str, *names: str) -> Iterator[_Line]:
    """The other process's lines as they come. Raises ModelsFailed at its end if it failed."""
    folder = str(find_places(dict(os.environ)).models)
    words = [sys.executable, *_CLI, verb, folder, *names, *_catalogues()]
    failure = ""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        try:
            for raw in child.stdout:
                try:
                    line = _decode(raw)
                except msgspec.DecodeError:
                    continue
                if line.type == "error":
                    failure = line.message
                else:
                    yield line
            child.wait()
        finally:
            child.kill()
    if failure or child.returncode != 0:
        code = child.returncode or 1
        raise ModelsFailed(failure or f"it ended with exit code {code}", max(code, 1))


@models.command("list", cls=DoorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a model.")
def list_models(*, as_json: bool) -> None:
    """Model files that are known, and which are here.

    \b
    Example:
      swarm models list
    """
    rows: list[tuple[str, ...]] = []
    for line in ask_models("list"):
        if as_json:
            print_json({name: getattr(line, name) for name in (
                "name", "size_bytes", "here", "licence", "calls_tools", "context_window", "about",
            )})  # fmt: skip
        tools = "tools" if line.calls_tools else "no tools"
        here = "here" if line.here else "not here"
        rows.append(
            (line.name, render_bytes(line.size_bytes), here, tools, line.licence, line.about)
        )
    if not as_json:
        print_columns(("MODEL", "SIZE", "STATE", "TOOLS", "LICENCE", "ABOUT"), rows, right="SIZE")


@models.command("pull", cls=DoorCommand)
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Progress as JSON lines.")
def pull_model(name: str, *, as_json: bool) -> None:
    """Fetch a model file; a broken download goes on where it stopped.

    \b
    Example:
      swarm models pull smollm2
    """
    path = ""
    with click.progressbar(
        length=1000, label=f"pulling {name}", file=sys.stderr, hidden=as_json
    ) as bar:
        for line in ask_models("pull", name):
            if as_json:
                fields = ("type", "have", "total") if line.type == "progress" else ("type", "path")
                print_json({field: getattr(line, field) for field in fields})
            elif line.type == "progress" and line.total:
                bar.update(max(line.have * 1000 // line.total - bar.pos, 0))
            path = line.path or path
        bar.update(max(1000 - bar.pos, 0))
    if not as_json:
        click.echo(path)


@models.command("probe", cls=DoorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a provider.")
def probe_models(*, as_json: bool) -> None:
    """Which providers can be used now: keys that are set, servers that answer.

    \b
    Example:
      swarm models probe
    """
    layers = find_layers(os.environ, Wanted(cwd=find_cwd(None)))
    held = find_requirements(os.environ)
    found = check_providers(load_config(layers, requirements=held).config, os.environ)
    if as_json:
        for one in found:
            print_json(one.as_dict())
        return
    print_columns(("PROVIDER", "STATE", "WHAT"), [(c.name, c.state, c.words) for c in found])
