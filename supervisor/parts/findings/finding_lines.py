"""Findings as text for people; all text is cleaned."""

from swarm.mailbox.protocol.values.findings import FindingPublished

from ...base.safe_text import clean_line


def describe_finding(published: FindingPublished) -> str:
    found = published.finding
    place = f"{found.place}: " if found.place else ""
    return clean_line(f"#{found.number} {place}{found.fact}")


def count_findings(count: int) -> str:
    return f"{count} {'finding' if count == 1 else 'findings'}"
