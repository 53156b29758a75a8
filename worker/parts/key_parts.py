"""What gives a provider its key where no variable does; the list of such parts. Of the gateway."""

from typing import NamedTuple

from swarm.mailbox.protocol.spec import ProviderSpec


class GivenKey(NamedTuple):
    """A key, for how long it need not be asked for again (None: until it is refused), and values
    for headers that name them.
    """

    key: str
    lasts_s: float | None
    values: dict[str, str]


async def fetch_part_key(provider: ProviderSpec, refused: str) -> GivenKey:
    """The provider's key; `refused` is the one that its server has just refused.

    Raises SwarmError with what to type.
    """
    from .accounts.account_keys import fetch_account_key  # most runs have their keys from variables

    assert provider.account is not None
    given = await fetch_account_key(provider.account, provider.base_url, refused)
    values = {f"{provider.env_key}.account_id": given.account_id} if given.account_id else {}
    return GivenKey(given.key, given.lasts_s, values)
