"""The configuration's keys of parts, each with the part's own table. Values only."""

from typing import NamedTuple

from swarm.mailbox.parts.leases.lease_messages import LeaseSettings

from .model_keys import ModelKeys


class PartKeys(ModelKeys):
    """A new part adds its table here, and what it means below."""

    leases: LeaseSettings = LeaseSettings()  # swarm's own


class PartKey(NamedTuple):
    """What is to be said of a part's table."""

    meaning: str  # what a project's own file does with it, for the summary of trust
    of_the_run: bool  # a role cannot set it


PART_KEYS = {"leases": PartKey("changes how heavy commands take turns", of_the_run=True)}
