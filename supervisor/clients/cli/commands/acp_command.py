"""`swarm acp`: an agent for editors that speak the Agent Client Protocol."""

import click

from swarm.mailbox.base.errors import SwarmError

from ..base.lazy_commands import ColorCommand
from ..base.models_process import query_models
from ..run_setup.run_settings import load_config_here

_MOST_MODELS = 200


@click.command("acp", cls=ColorCommand)
def acp() -> int:
    """Serve an editor over the Agent Client Protocol on stdin and stdout.

    The editor starts this command; each session is a run that `swarm ps` lists. See docs/acp.md.

    \b
    Example, in Zed's settings.json; in a terminal it waits for an editor:
      {"agent_servers": {"swarm": {"command": "swarm", "args": ["acp"]}}}
      swarm acp
    """
    # slow to import (pydantic), and needed by this process alone
    from ...acp.acp_server import serve_editor

    return serve_editor(_known_models)


def _known_models() -> tuple[str, ...]:
    """The models that an editor offers: of the configured provider, or all."""
    try:
        wanted = load_config_here(lenient=True).config.model_provider
        found = [
            line.name
            for line in query_models("list")
            if wanted is None or line.provider in {"", wanted}
        ]
    except SwarmError:
        return ()  # a run says what is wrong with the configuration
    return tuple(dict.fromkeys(found))[:_MOST_MODELS]
