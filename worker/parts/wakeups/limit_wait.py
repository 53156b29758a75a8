"""An agent whose provider refuses until a limit resets waits for it at this point of its turn.

The supervisor decides whether the run waits, for how long, and ends this process meanwhile; the
next one continues the turn with the same request.
"""

import msgspec

from swarm.mailbox.parts.wakeups.wakeup_messages import LimitOver, WaitForLimit
from swarm.mailbox.protocol.requests import RequestRefused
from swarm.mailbox.protocol.sampling import ModelInfo, SampleFailed

from ...base.reporter import Reporter

_SHOW_AFTER_S = 0.5
_LIMITS = frozenset({"usage_limit_exceeded", "overloaded"})


async def wait_for_limit(
    reporter: Reporter, model: ModelInfo | None, failed: SampleFailed
) -> SampleFailed | None:
    """What stands of the failure; None: the limit is over."""
    if failed.kind not in _LIMITS or failed.resets_at_unix_s is None or model is None:
        return failed
    request = WaitForLimit(
        provider=model.provider,
        model=model.slug,
        resets_at_unix_s=failed.resets_at_unix_s,
        message=failed.message,
    )
    async with reporter.shown_wait("waits for a limit to reset", after_s=_SHOW_AFTER_S):
        reply = await reporter.request(request)
    match reply:
        case LimitOver():
            return None
        case RequestRefused(message=why):
            return msgspec.structs.replace(failed, message=f"{failed.message}; {why}")
        case _:
            return failed
