"""The key `isolation` of a configuration: a word, or a table that says how copies get ready."""

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import RunIsolation

_MOST_COMMANDS, _MOST_INPUTS = 20, 200


class IsolationTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`[isolation]`, swarm's own."""

    mode: RunIsolation = "shared"  # as the word alone
    prepare: tuple[str, ...] = ()  # commands that make ignored folders for all copies
    prepare_inputs: tuple[str, ...] = ()  # files on which that depends; (): those of installers


def isolation_table(value: RunIsolation | IsolationTable) -> IsolationTable:
    """The table that the word stands for. Raises UsageError that names the key."""
    if isinstance(value, str):
        return IsolationTable(mode=value)
    if not all(one.strip() for one in (*value.prepare, *value.prepare_inputs)):
        raise UsageError("isolation.prepare: a command or the name of a file is empty")
    if len(value.prepare) > _MOST_COMMANDS or len(value.prepare_inputs) > _MOST_INPUTS:
        raise UsageError(
            f"isolation.prepare: at most {_MOST_COMMANDS} commands and {_MOST_INPUTS} names"
        )
    return value
