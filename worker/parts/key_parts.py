"""What gives a provider its key where no variable does, and what signs its requests; the list of
such parts. Of the gateway.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from swarm.mailbox.protocol.spec import KeyCommand, ProviderSpec

RunCommand = Callable[[KeyCommand], Awaitable[str]]  # its output as one line


class GivenKey(NamedTuple):
    """A key, for how long it need not be asked for again (None: until it is refused), values that
    belong to it, by name, and what of all this is secret.
    """

    key: str
    lasts_s: float | None
    values: dict[str, str]
    secrets: tuple[str, ...]
    warning: str = ""  # what the person should know


class SentRequest(NamedTuple):
    """A request as it is sent; `target` is path and query, `headers` has `host`."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


async def fetch_part_key(provider: ProviderSpec, refused: str, run: RunCommand) -> GivenKey:
    """The provider's key; `refused` is the one that its server has just refused.

    Raises SwarmError with what to type.
    """
    name = provider.env_key or ""
    if provider.credentials is not None:
        from .clouds.cloud_keys import command_of, read_credentials  # few runs have such a provider

        line = await run(command_of(provider.credentials))
        return GivenKey(*read_credentials(line, provider.credentials, name))
    from .accounts.account_keys import fetch_account_key  # most runs have their keys from variables

    assert provider.account is not None
    given = await fetch_account_key(provider.account, provider.base_url, refused)
    values = {f"{name}.account_id": given.account_id} if given.account_id else {}
    return GivenKey(given.key, given.lasts_s, values, (given.key,), given.warning)


def part_headers(
    provider: ProviderSpec, keys: Mapping[str, str], sent: SentRequest
) -> dict[str, str]:
    """The headers with which a part's credentials travel, in lower case."""
    from .clouds.aws_signing import UnsignedRequest
    from .clouds.cloud_keys import cloud_headers

    assert provider.credentials is not None
    name, unsigned = provider.env_key or "", UnsignedRequest(*sent)
    return cloud_headers(provider.credentials, name, keys, unsigned)
