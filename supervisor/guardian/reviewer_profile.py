"""The profile of a reviewer: instructions, limits, model. Read-only, asks nobody, starts no agents.

Nothing from the reviewed project reaches the instructions: the built-in role is used whatever roles
the run has, without AGENTS.md, and only a person's configuration adds a policy.
"""

from functools import cache

import msgspec

from swarm.mailbox.protocol.limits import Limits, ReadOnly
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.roles.role_loader import built_in_role

from ..run_request import ReviewSettings

ROLE = "guardian"
_POLICY, _ANSWER = "# Policy\n", "# Your answer\n"
# No network, no children, no approvals: a request for one is refused.
LIMITS = Limits(
    sandbox=ReadOnly(network_access=False), approval="never", reviewer="nobody", max_depth=0
)


class ReviewerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What two reviews must have in common to share a process."""

    model: str | None
    effort: str | None
    cwd: str
    policy: str = ""


def profile_for(settings: ReviewSettings, *, model: str | None, cwd: str) -> ReviewerProfile:
    """The profile to use; the model is the configured one, else that of the requesting agent."""
    return ReviewerProfile(
        model=settings.model or model,
        effort=settings.effort,
        cwd=cwd,
        policy=settings.policy.strip(),
    )


def brief_for(seat: ReviewerProfile) -> RoleBrief:
    """The reviewer's role, with the configured policy in place of the built-in one."""
    return RoleBrief(name=ROLE, base_instructions=instructions(seat.policy), locked=True)


def instructions(policy: str = "") -> str:
    """The reviewer's base instructions; a blank policy keeps the built-in one."""
    text = _built_in()
    if not policy.strip():
        return text
    before, _, rest = text.partition(_POLICY)
    _, _, answer = rest.partition(_ANSWER)
    return f"{before}{_POLICY}\n{policy.strip()}\n\n{_ANSWER}{answer}"


@cache
def _built_in() -> str:
    return built_in_role(ROLE).developer_instructions
