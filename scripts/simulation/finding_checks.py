"""What must hold of the findings of a simulated run."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from swarm.mailbox.contents.context_markers import FINDINGS_START
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import ItemRecorded, Record
from swarm.mailbox.protocol.values.findings import Finding, FindingPublished

_FINDING_LINE = re.compile(r"^- #(?P<number>\d+) (?P<author>[^:,]+): (?P<fact>.*)$", re.MULTILINE)


def check_findings(records: Iterable[Record]) -> Iterator[str]:
    """Each fact is published once; another agent reads it once, after it was journaled."""
    published: dict[int, Finding] = {}
    shown = Counter[tuple[str, int]]()
    for one in records:
        match one.body:
            case FindingPublished(finding=finding):
                published[finding.number] = finding
            case ItemRecorded(item=Message() as item) if FINDINGS_START in text_of(item.content):
                for found in _FINDING_LINE.finditer(text_of(item.content)):
                    number = int(found["number"])
                    shown[one.agent, number] += 1
                    finding = published.get(number, Finding(number=number, author="", fact=""))
                    if (found["author"], found["fact"]) != (finding.author, finding.fact):
                        yield f"{one.agent} read another finding #{number} than was published"
                    if finding.author == one.agent:
                        yield f"{one.agent} read its own finding #{number}"
            case _:
                pass
    yield from (f"{agent} read finding #{number} {count} times"
                for (agent, number), count in shown.items() if count > 1)  # fmt: skip
    if sorted(published) != list(range(1, len(published) + 1)):
        yield f"the findings are numbered {sorted(published)}"
    facts = Counter(finding.fact for finding in published.values())
    yield from (f"{fact} was published {count} times" for fact, count in facts.items() if count > 1)
