"""To whom a client's secret is given."""

from types import SimpleNamespace
from typing import cast

import pytest
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from pydantic import AnyHttpUrl

from swarm.mailbox.protocol.mcp import McpServer
from swarm.worker.parts.mcp.service_login import check_issuer


def offering(endpoint: str) -> OAuthClientProvider:
    """A provider that has read this address of tokens."""
    metadata = SimpleNamespace(token_endpoint=AnyHttpUrl(endpoint))
    context = SimpleNamespace(oauth_metadata=metadata, client_metadata=None)
    return cast("OAuthClientProvider", SimpleNamespace(context=context))


@pytest.mark.parametrize(
    ("url", "endpoint", "why"),
    [
        ("https://docs.example/mcp", "https://docs.example:8443/token", ""),
        ("http://127.0.0.1:8000/mcp", "http://127.0.0.1:9000/token", ""),
        ("https://docs.example/mcp", "http://docs.example/token", "unencrypted"),
        ("https://docs.example/mcp", "https://elsewhere.example/token", "another host"),
    ],
)
def test_a_secret_goes_to_the_servers_own_host_and_never_out_of_an_encrypted_connection(
    url: str, endpoint: str, why: str
):
    server = McpServer(name="docs", url=url)
    if not why:
        check_issuer(server, offering(endpoint))
        return
    with pytest.raises(OAuthFlowError, match=why):
        check_issuer(server, offering(endpoint))
