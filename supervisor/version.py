"""The version of swarm, from the installed metadata; read once, and only where it is shown."""

from importlib.metadata import PackageNotFoundError, version


def read_version() -> str:
    """The distribution's version; "0" when it runs from files that were never installed."""
    try:
        return version("swarm-agents")
    except PackageNotFoundError:
        return "0"
