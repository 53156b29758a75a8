"""`aws` and `google` of a provider's table, as the command line reads and checks them."""

from collections.abc import Mapping
from importlib.util import find_spec

from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.parts.clouds.cloud_messages import CloudCredentials
from swarm.roles.config.part_keys import ProviderPartKeys
from swarm.roles.parts.clouds.cloud_settings import AWS_VARIABLES, cloud_problem, find_credentials

_LIBRARIES = {"aws": ("botocore", "bedrock"), "google": ("google.auth", "vertex")}


def credentials_of(
    place: str, base_url: str, table: ProviderPartKeys, environment: Mapping[str, str]
) -> CloudCredentials | None:
    """Where the provider at `place` has its credentials from; None: from no cloud."""
    return find_credentials(place, base_url, (table.aws, table.google), environment)


def credentials_problem(base_url: str, table: ProviderPartKeys) -> tuple[str, str] | None:
    """(key, reason) of the first error in the tables; None if there is none."""
    return cloud_problem(base_url, table.aws, table.google)


def credential_variables(table: ProviderPartKeys) -> tuple[str, ...]:
    """Variables that may hold its secrets."""
    return AWS_VARIABLES if table.aws is not None else ()


def lacking_library(table: ProviderPartKeys) -> tuple[str, str] | None:
    """(the library that the table needs and that is not there, how one gets it); None: it is there.

    Nothing is imported.
    """
    for name, (module, extra) in _LIBRARIES.items():
        if getattr(table, name) is not None and not _is_there(module):
            return module, line_for_extra(extra)
    return None


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package above it
        return False
