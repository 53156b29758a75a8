"""Delay before a failed sample is retried. The gateway retries requests; this retries streams.

The number of attempts is bounded, and a delay named by the server is respected.
"""

from swarm.mailbox.protocol.sampling import SampleFailed

_BASE_DELAY_S = 0.2


def plan_retry(failed: SampleFailed, *, attempt: int, most: int, noise: float) -> float | None:
    """Return the seconds to wait before retry number `attempt` (from 1); None: give up.

    Args:
        failed: Why the attempt ended.
        attempt: Number of the retry.
        most: How many retries the provider's settings allow.
        noise: Uniform in [0, 1): the delay varies by a tenth each way.
    """
    if not failed.retryable or attempt > most:
        return None
    if failed.retry_after_s is not None:
        return max(0.0, failed.retry_after_s)
    return _BASE_DELAY_S * 2.0 ** (attempt - 1) * (0.9 + 0.2 * noise)
