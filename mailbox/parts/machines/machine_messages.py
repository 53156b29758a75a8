"""A person's requests about the machines of a live run."""

from ...protocol.values.base import Tagged


class DrainHost(Tagged):
    """Start no agent on a machine any more; those that are there finish."""

    node: str  # its name, or the end of it that no other has; a table's name: all its machines
