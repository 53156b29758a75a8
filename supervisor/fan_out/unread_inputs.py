"""What a person said to an item whose agent was lost with its run, before that agent read it.

Rule guarded: words that were told to be sent are heard once. An item that was cut off is begun anew
by another agent, who has the same task; it hears what none of those before it has heard.
"""

from collections.abc import Iterable

from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import InputPosted, ItemRecorded

from ..journal.journal_reader import read_records
from ..runs.paths import RunPaths

UnreadInputs = dict[
    str, list[InputPosted]
]  # an item's task → what its next agent is to hear, in order


def find_unread_inputs(places: RunPaths, agent_ids: Iterable[str]) -> UnreadInputs:
    """Read the files of these agents, of items that were begun and did not end."""
    said: dict[str, tuple[str, InputPosted]] = {}  # by its id, which it keeps from agent to agent
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
    """Its words."""
    return "".join(part.text for part in posted.parts if isinstance(part, TextInput))
