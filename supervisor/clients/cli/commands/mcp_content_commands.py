"""`swarm mcp resources|read|prompts|prompt`: what servers offer beside their tools."""

import click
import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.mcp import (
    ListMcpResources,
    McpOutcome,
    McpText,
    ReadMcpResource,
)

from ....base.prompt_call import PromptCall
from ....base.safe_text import clean_block, clean_line
from ..base.lazy_commands import ColorCommand
from ..base.mcp_prompts import PromptEntry, fetch_prompt, list_prompts
from ..base.printing import print_columns, print_json

_JSON = click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")


class _Entry(msgspec.Struct, frozen=True):
    name: str = ""
    uri: str = ""
    uriTemplate: str = ""
    description: str = ""


class _Listed(msgspec.Struct, frozen=True):
    resources: tuple[_Entry, ...] = ()
    resourceTemplates: tuple[_Entry, ...] = ()
    nextCursor: str = ""
    left_out: int = 0


@click.command("resources", cls=ColorCommand)
@click.argument("server")
@click.option("--cursor", default="", help="Where the list goes on, as the page before said.")
@click.option("--templates", is_flag=True, help="Templates of addresses instead.")
@_JSON
def list_resources(server: str, *, cursor: str, templates: bool, as_json: bool) -> None:
    """List the resources of a server, one page at a time.

    \b
    Example:
      swarm mcp resources docs
    """
    from ..base.mcp_process import ask_server  # not for `swarm mcp list`

    question = ListMcpResources(server=server, cursor=cursor, templates=templates)
    text = _text(server, ask_server(server, question))
    if as_json:
        click.echo(text)
        return
    found = decode_json_as(text, _Listed)
    rows = [
        (one.uri or one.uriTemplate, one.name, one.description)
        for one in (*found.resources, *found.resourceTemplates)
    ]
    print_columns(("ADDRESS", "NAME", "DESCRIPTION"), rows)
    if not rows:
        click.echo(f"{server} has no {'templates' if templates else 'resources'}", err=True)
    if found.left_out:
        click.echo(f"{found.left_out} more are left out", err=True)
    if found.nextCursor:
        click.echo(f"more: --cursor {clean_line(found.nextCursor)}", err=True)


@click.command("read", cls=ColorCommand)
@click.argument("server")
@click.argument("uri")
@_JSON
def read_resource(server: str, uri: str, *, as_json: bool) -> None:
    """Read one resource of a server: its texts; other data is named.

    \b
    Example:
      swarm mcp read docs file:///guide.md
    """
    from ..base.mcp_process import ask_server  # not for `swarm mcp list`

    text = _text(server, ask_server(server, ReadMcpResource(server=server, uri=uri)))
    if as_json:
        click.echo(text)
        return
    try:
        found = decode_json_as(text, dict[str, object])
        contents = msgspec.convert(found.get("contents", []), list[dict[str, object]])
    except (msgspec.DecodeError, msgspec.ValidationError):  # it was cut
        click.echo(clean_block(text))
        return
    for one in contents:
        click.echo(clean_block(str(one.get("text", one.get("blob", "")))))


@click.command("prompts", cls=ColorCommand)
@click.argument("server")
@_JSON
def show_prompts(server: str, *, as_json: bool) -> None:
    """List the prompts of a server: `/SERVER:PROMPT` in the conversation and in `run -p`.

    \b
    Example:
      swarm mcp prompts docs
    """
    found = list_prompts(server)
    if as_json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    rows = [(f"/{server}:{one.name}", arguments_shown(one), one.description) for one in found]
    print_columns(("PROMPT", "ARGUMENTS", "DESCRIPTION"), rows)
    if not rows:
        click.echo(f"{server} has no prompts", err=True)


@click.command("prompt", cls=ColorCommand)
@click.argument("server")
@click.argument("prompt")
@click.argument("words", nargs=-1)
def show_prompt(server: str, prompt: str, words: tuple[str, ...]) -> None:
    """Print the text that a prompt stands for, as an agent would get it.

    \b
    Example:
      swarm mcp prompt docs review file=README.md
    """
    click.echo(fetch_prompt(PromptCall(server, prompt, words)))


def arguments_shown(entry: PromptEntry) -> str:
    """`file=… [focus=…]`."""
    return " ".join(
        f"{one.name}=…" if one.required else f"[{one.name}=…]" for one in entry.arguments
    )


def _text(server: str, outcome: McpOutcome) -> str:
    if outcome.state != "completed":
        raise SwarmError(f"{server}: {clean_line(outcome.message, limit=600)}")
    return "".join(one.text for one in outcome.parts if isinstance(one, McpText))
