"""`swarm models probe`: lists usable providers; with a model or a provider, tries what it can do.

The keys leave this process's environment first and reach the process that sends the requests by
pipe.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.key_wiping import take_keys
from swarm.mailbox.protocol.spec import ProbeOrder
from swarm.roles.config.layers.config_writer import write_edit
from swarm.roles.config.layers.merge import Layer
from swarm.roles.config.layers.toml_edit import ConfigEdit
from swarm.roles.config.schema import Config, Toml

from ....request.run_places import project_lookup, with_places
from ....runs.paths import find_user_paths
from ..base.confirmation import can_ask
from ..base.lazy_commands import ColorCommand
from ..base.models_process import ModelLine, catalogue_files, own_catalogue_file, stream_probe
from ..base.printing import print_columns, print_json
from ..base.provider_checks import check_providers
from ..run_setup.provider_specs import build_providers
from ..run_setup.run_settings import key_variables, load_config_here

_encode = msgspec.json.Encoder().encode
_CHOSEN = ("type", "provider", "model", "known", "why")
_TRIED = ("type", "test", "works", "answered", "detail", "seconds", "first_byte_s",
          "input_tokens", "cached_tokens", "output_tokens", "reasoned")  # fmt: skip
_SUMMARY = ("type", "calls_worked", "calls", "context_window", "window_known",
            "input_tokens_per_s", "output_tokens_per_s", "memory_bytes")  # fmt: skip
_ADVICE = ("type", "models_toml")


@click.command("probe", cls=ColorCommand)
@click.argument("model", required=False)
@click.option("--provider", help="The provider to try; else as a run would choose.")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds for each request.")
@click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option(
    "--save", "--write", "save", is_flag=True, help="Write the result into models.toml, unasked."
)
def probe_models(
    model: str | None,
    provider: str | None,
    timeout: float,
    overrides: tuple[str, ...],
    *,
    as_json: bool,
    save: bool,
) -> None:
    """Which providers can be used; with MODEL or --provider, what one can do.

    The model gets nine small requests: for a word, for five tool calls of growing difficulty, for
    a patch, for an answer that fits a schema, and for a word after a history that many servers
    refuse. Shown are also the window, the speed, the memory of a server on this machine, and the
    lines for models.toml: --save writes them, and without it a terminal asks. Exit code 5: no
    provider, no key, or no answer.

    \b
    Example:
      swarm models probe claude-haiku-5-5
      swarm models probe --provider ollama --save
    """
    chosen = {"model": model, "model_provider": provider}
    flags = Layer(name="flags", values={key: value for key, value in chosen.items() if value})
    config = load_config_here(overrides, flags=flags).config
    if model is None and provider is None:
        _overview(config, as_json=as_json)
        return
    if not 0 < timeout <= 3600:
        raise click.BadParameter("must be between 0 and 3600", param_hint="--timeout")
    order = _order(config, timeout)
    lines = stream_probe(_encode(order), dict(os.environ))
    saved = _Saved()
    lines = saved.watch(lines)
    _show_json(lines) if as_json else _show(lines)
    if not save and saved.has_any and not as_json and can_ask():
        save = click.confirm(f"Write this into {own_catalogue_file()}?", default=False, err=True)
    if save:
        click.echo(saved.write(), err=True)


class _Saved:
    """Writes what a probe has learned into the person's models.toml."""

    def __init__(self) -> None:
        self._slug = ""
        self._entry = dict[str, object]()

    @property
    def has_any(self) -> bool:
        """True if there is something to write."""
        return bool(self._entry)

    def watch(self, lines: Iterator[ModelLine]) -> Iterator[ModelLine]:
        """The same lines; notes the model and its entry. A guessed window is not kept."""
        knows_window = False
        for line in lines:
            if line.type == "chosen":
                self._slug = line.model
            elif line.type == "summary":
                knows_window = line.window_known
            elif line.type == "advice":
                self._entry = dict(line.entry)
                if not knows_window:
                    self._entry.pop("context_window", None)
            yield line

    def write(self) -> str:
        """Returns what was done. Raises SwarmError: the file cannot be changed."""
        path = own_catalogue_file()
        if not self._entry:
            return f"swarm: nothing to write into {path}"
        edit = ConfigEdit(steps=("models", self._slug), value=self._entry, merge=True)
        write_edit(path, edit, if_version=None, check=_check_nothing)
        return f"swarm: wrote the entry of {self._slug} into {path}"


def _check_nothing(values: Toml) -> None:
    """Every key of the entry is one of the catalogue."""


def _order(config: Config, timeout_s: float) -> ProbeOrder:
    """Everything that the other process needs; takes the keys out of this process's environment."""
    environment = dict(os.environ)
    keys = take_keys(environment, key_variables(config))
    if config.openai_base_url:
        os.environ["OPENAI_BASE_URL"] = config.openai_base_url
    providers, literal = build_providers(config, [])
    return ProbeOrder(
        providers=with_places(providers, project_lookup(environment, str(Path.cwd()))),
        provider=config.model_provider,
        model=config.model,
        models_dir=str(find_user_paths(environment).models),
        catalogue=tuple(catalogue_files()),
        keys={**keys, **literal},
        limit_s=timeout_s,
    )


def _overview(config: Config, *, as_json: bool) -> None:
    found = check_providers(config, os.environ)
    if as_json:
        for one in found:
            print_json(one.as_dict())
        return
    print_columns(("PROVIDER", "STATE", "WHAT"), [(c.name, c.state, c.summary) for c in found])
    click.echo("\nTo try one: swarm models probe MODEL, or --provider ID")


def _show_json(lines: Iterator[ModelLine]) -> None:
    fields = {"chosen": _CHOSEN, "probe": _TRIED, "summary": _SUMMARY, "advice": _ADVICE}
    for line in lines:
        print_json({name: getattr(line, name) for name in fields.get(line.type, ("type",))})


def _show(lines: Iterator[ModelLine]) -> None:
    for line in lines:
        match line.type:
            case "chosen":
                known = "" if line.known else "; no catalogue entry"
                click.echo(f"{line.provider} · {line.model} ({line.why}{known})")
            case "probe":
                click.echo(_result(line))
            case "summary":
                _show_summary(line)
            case "advice" if line.models_toml:
                click.echo(f"\nFor models.toml beside the config:\n\n{line.models_toml}", nl=False)
            case "advice":
                click.echo("\nThe catalogue says so already.")
            case _:
                continue


def _result(line: ModelLine) -> str:
    state = "works" if line.works else "answered otherwise" if line.answered else "no answer"
    times = f"{line.seconds:.2f} s"
    if line.first_byte_s is not None:
        times = f"first byte {line.first_byte_s:.2f} s, all {times}"
    if line.answered:
        times += f", {line.input_tokens} → {line.output_tokens} tokens"
    detail = f": {line.detail}" if line.detail else ""
    return f"  {line.test:<14} {state} ({times}){detail}"


def _show_summary(line: ModelLine) -> None:
    window = f"{line.context_window:,} tokens{'' if line.window_known else ', a guess'}"
    rows = [("calls", f"{line.calls_worked} of {line.calls} worked"), ("window", window)]
    speeds = {"in": line.input_tokens_per_s, "out": line.output_tokens_per_s}
    known = [f"{way} {speed:g}" for way, speed in speeds.items() if speed is not None]
    if known:
        rows.append(("tokens a second", ", ".join(known)))
    if line.memory_bytes is not None:
        rows.append(("memory", f"{line.memory_bytes / (1 << 30):.2f} GiB of its server"))
    click.echo("")
    for name, text in rows:
        click.echo(f"  {name:<16} {text}")
