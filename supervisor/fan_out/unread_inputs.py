"""Inputs of a person that an item's agent had not read when it was lost with its run.

Each input that was accepted is read once. A new agent with the same task starts the cut-off item
afresh; it gets the inputs that no earlier agent of the item has read.
"""

from collections.abc import Iterable

from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import InputPosted, ItemRecorded

from ..journal.journal_reader import read_records
from ..runs.paths import RunPaths

UnreadInputs = dict[str, list[InputPosted]]  # an item's task → inputs for its next agent, in order


def find_unread_inputs(places: RunPaths, agent_ids: Iterable[str]) -> UnreadInputs:
    """Read the files of these agents, whose items began and did not end."""
    said: dict[str, tuple[str, InputPosted]] = {}  # by input id, the same for every agent
    heard: set[str] = set()
    for agent_id in agent_ids:
        task = ""
        for record in read_records(places, file=agent_id):
            match record.body:
                case InputPosted(source="fan_out") as posted:
                    task = text_of_input(posted)
                case InputPosted(source="person", input_id=name) as posted:
                    said[name] = task, posted
                case ItemRecorded(item_id=name):
                    heard.add(name)
                case _:
                    pass
    found: UnreadInputs = {}
    for name, (task, posted) in said.items():
        if name not in heard:
            found.setdefault(task, []).append(posted)
    return found


def text_of_input(posted: InputPosted) -> str:
    """The text of an input."""
    return "".join(part.text for part in posted.parts if isinstance(part, TextInput))
