"""`swarm`: the top-level command. All errors become a message on stderr and an exit code here.

Nothing heavy is imported here (a test names the allowed modules), and only the commands' own output
goes to stdout.
"""

import os
import sys
from contextlib import suppress
from typing import cast

import click

from swarm.mailbox.base.errors import SwarmError, UsageError

from .base.lazy_commands import LazyGroup

_UNSUPPORTED_PLATFORMS = {
    "darwin": "macOS has no bubblewrap, Landlock, seccomp or pidfd: no sandbox and no run here yet",
    "win32": "Windows has no fork, no Unix sockets for ZeroMQ and no sandbox: no run here yet",
}
_LINUX_ONLY = ("run", "resume", "sandbox")


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's
    if value and not ctx.resilient_parsing:
        from ...base.version import VERSION, find_commit

        commit = find_commit()
        click.echo(f"swarm {VERSION} ({commit})" if commit else f"swarm {VERSION}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
    help="Print the version and leave.",
)  # fmt: skip
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
    help="Colour of the output.",
)  # fmt: skip
@click.pass_context
def cli(ctx: click.Context, color: str) -> None:
    """A supervised swarm of coding agents. Alone, on a terminal: a conversation.

    \b
      swarm run -p "What does this project do?"
      swarm COMMAND --help
    """
    ctx.obj = color
    if color != "auto":
        ctx.color = color == "always"
    elif os.environ.get("NO_COLOR"):
        ctx.color = False
    if ctx.invoked_subcommand is None:
        ctx.exit(_chat_or_help(ctx, color))
    else:
        _check_platform(ctx.invoked_subcommand)


def _chat_or_help(ctx: click.Context, color: str) -> int:
    """Plain `swarm`: a conversation on a terminal, else the help."""
    if sys.platform == "linux" and sys.stdin.isatty() and sys.stdout.isatty():
        from .commands.chat_command import can_chat, offer_model, open_chat

        if can_chat():
            offer_model()
            return open_chat(color)
    click.echo(ctx.get_help())
    return 0


def _check_platform(command: str) -> None:
    """On other systems than Linux, say what does not work and refuse commands that cannot work."""
    lack = _UNSUPPORTED_PLATFORMS.get(sys.platform)
    if lack is None:
        return
    if sys.platform == "win32" or command in _LINUX_ONLY:
        raise SwarmError(f"{lack}; use Linux, a virtual machine or a container")
    from .base.printing import say

    say(lack)


def run_cli(arguments: list[str]) -> int:
    """Run one command line; return its exit code, after all of its answer was written."""
    code = _run_command(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        return code or 1
    except OSError as error:
        _discard_stdout()
        if code != 0:  # the command has said what went wrong
            return code
        words = f"standard output could not be written: {error.strerror}"
        return _print_error(words, 1)
    return code


def _run_command(arguments: list[str]) -> int:
    try:
        outcome: object = cli.main(args=arguments, prog_name="swarm", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
        return _report(_without_group(error))
    return outcome if isinstance(outcome, int) else 0


def _without_group(error: BaseException) -> BaseException:
    """What Trio has wrapped in a group: an interrupt, or the first error that people can act on."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    from ...base.exception_groups import first_error

    group = cast("BaseExceptionGroup[BaseException]", error)
    if group.subgroup(KeyboardInterrupt) is not None:
        return KeyboardInterrupt()
    return first_error(group, (SwarmError, OSError)) or group


def _report(error: BaseException) -> int:
    """Say on stderr what went wrong; the exit code."""
    match error:
        case SwarmError():
            return _print_error(str(error), error.exit_code)
        case click.exceptions.Exit():
            return error.exit_code
        case click.ClickException():
            return _print_error(_click_message(error), UsageError.exit_code)
        case KeyboardInterrupt() | click.Abort():
            return _print_error("interrupted", 130)
        case BrokenPipeError():
            _discard_stdout()
            return 1
        case UnicodeEncodeError():  # the text may be a secret
            hint = "a folder, file or word here is not valid UTF-8; name it in UTF-8"
            return _print_error(hint, UsageError.exit_code)
        case OSError():
            from .base.fault_report import describe_os_error

            if (words := describe_os_error(error)) is not None:
                _discard_stdout()
                return _print_error(words, 1)
        case _:
            pass
    from swarm.mailbox.base.foreign_failures import explain_failure  # seldom needed

    words = explain_failure(error)  # what the machine lacks, and what to do
    return _print_fault(error) if words is None else _print_error(words, 1)


def _click_message(error: click.ClickException) -> str:
    """click's message, which already suggests the nearest option."""
    context = getattr(error, "ctx", None)
    text = error.format_message().rstrip(".")
    if isinstance(error, click.UsageError) and context is not None:
        text = text if text.endswith("?") else f"{text}."
        return f"{text} See `{context.command_path} --help`"
    return text


def _print_error(text: str, code: int) -> int:
    """Print one line on stderr, without characters that could control the terminal."""
    from .base.printing import say

    safe = "".join(char if char.isprintable() or char == "\n" else "�" for char in text)
    with suppress(OSError, ValueError):
        say(safe)
    return code


def _print_fault(error: BaseException) -> int:
    """A fault of swarm itself: one line, and a file with the traceback."""
    from ...runs.paths import find_user_paths
    from .base.fault_report import report_fault

    folder = find_user_paths(dict(os.environ)).state / "faults"
    return _print_error(report_fault(error, folder), 1)


def _discard_stdout() -> None:
    """The reader is gone: prevent an error when the interpreter flushes stdout at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
