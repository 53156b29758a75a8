"""Text for the model about a permission profile. The same profile gives the same bytes."""

from swarm.mailbox.path_rules import denies_reading
from swarm.mailbox.protocol.limits import Access, ProfilePolicy

_MAX_PATHS = 40
_VERBS: dict[Access, str] = {"write": "May be written", "read": "May be read", "deny": "Closed"}


def profile_lines(policy: ProfilePolicy) -> list[str]:
    """Return one line for each kind of access in the profile."""
    lines: list[str] = []
    for access, verb in _VERBS.items():
        paths = [rule.path for rule in policy.rules if rule.access == access]
        paths += policy.deny_globs if access == "deny" else ()
        if paths:
            shown = ", ".join(f"`{path}`" for path in paths[:_MAX_PATHS])
            more = len(paths) - _MAX_PATHS
            lines.append(f"{verb}: {shown}{f', and {more} more' if more > 0 else ''}.")
    if denies_reading(policy):
        lines.append("No command runs outside of the sandbox: `require_escalated` is refused.")
    return lines
