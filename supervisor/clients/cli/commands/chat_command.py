"""`swarm chat`: a conversation with a run, on a terminal. Also what plain `swarm` does there."""

import os
import sys
from pathlib import Path
from typing import cast

import click

from swarm.mailbox.base.errors import UsageError

from ....runs.paths import find_user_paths, make_private_folder
from ...console.terminal import is_ci, is_terminal
from ..base.lazy_commands import ColorCommand
from ..base.model_offer import offer_capable_model
from ..run_setup.click_values import OptionValue
from ..run_setup.options import agent_options, limit_options
from ..run_setup.run_settings import load_config_here
from .shown_outcome import find_opener

_HISTORY = "chat_history"


@click.command("chat", cls=ColorCommand)
@click.argument("run", required=False)
@click.option("-p", "--prompt", default="", help="The first words.")
@click.option("--plan", is_flag=True, help="Begin in plan mode: only read, until /accept.")
@agent_options
@limit_options
@click.pass_context
def chat(
    ctx: click.Context, /, run: str | None, prompt: str, *, plan: bool, **given: OptionValue
) -> int:
    """Talk with an agent that works in this folder.

    RUN is a run to go on with; without it your first words start one. It keeps running when you
    leave. The options are those of `swarm run`, for runs that the conversation starts.

    \b
    Examples:
      swarm chat
      swarm chat 4f21c0aa
    """
    if not can_chat():
        raise UsageError(
            "a conversation needs a terminal; use `swarm run -p TEXT`, or `swarm send` to a run"
        )
    if plan and run:
        raise UsageError("--plan is for a new run; in an open one say /plan")
    options = typed_options(ctx)
    if not (run or given["model"] or given["provider"]):
        overrides = cast("tuple[str, ...]", given["config"])
        offer_model(overrides, profile=cast("str | None", given["profile"]))
    return open_chat(ctx.obj or "auto", run=run or "", words=prompt, options=options, planning=plan)


def can_chat() -> bool:
    """True on a terminal that can redraw, outside of CI."""
    dumb = os.environ.get("TERM", "dumb") == "dumb" or is_ci(os.environ)
    return not dumb and is_terminal(sys.stdin) and is_terminal(sys.stdout)


def offer_model(overrides: tuple[str, ...] = (), *, profile: str | None = None) -> None:
    """Before a conversation: its runs have no terminal to ask on."""
    offer_capable_model(lambda: load_config_here(overrides, profile=profile).config, os.environ)


def open_chat(
    color: str,
    *,
    run: str = "",
    words: str = "",
    options: tuple[str, ...] = (),
    planning: bool = False,
) -> int:
    """Talk until the person leaves; the exit code."""
    from ...chat.chat_app import ChatOptions, run_chat  # its libraries are for a terminal alone

    chosen = ChatOptions(
        run=run,
        words=words,
        run_options=options,
        color=color,
        planning=planning,
        find_opener=find_opener,
    )
    return run_chat(chosen, output=sys.stdout, history=_history_file())


def typed_options(
    ctx: click.Context, *, but: tuple[str, ...] = ("prompt", "plan")
) -> tuple[str, ...]:
    """The options that were typed, as words of a command line, without those of these names."""
    words: list[str] = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = ctx.get_parameter_source(name)
        if not isinstance(parameter, click.Option) or name in but or source is None:
            continue
        if source.name != "COMMANDLINE" or not parameter.expose_value:
            continue
        value: object = ctx.params[name]
        option = max(parameter.opts, key=len)
        if parameter.is_flag:
            words.append(option)
        elif isinstance(value, tuple):
            words += [f"{option}={one}" for one in cast("tuple[object, ...]", value)]
        else:
            words.append(f"{option}={value}")
    return tuple(words)


def _history_file() -> Path | None:
    """The words that were typed before, readable by their author alone; None if it cannot be."""
    folder = find_user_paths(dict(os.environ)).state
    try:
        path = make_private_folder(folder) / _HISTORY
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        path.chmod(0o600)
    except OSError:
        return None
    return path
