"""`wait_for_limit`: how long a run waits for a limit to reset. No I/O."""

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.quantities import parse_duration

NEVER = "never"
DEFAULT_WAIT_S = 6 * 3600.0  # of a run that a person started


def check_wait_for_limit(value: str | float | None, *, is_persons: bool) -> float:
    """The longest wait in seconds; 0.0 is none. Raises UsageError that shows valid forms.

    Args:
        value: As the key, the flag or the task file has it; None: nobody said it.
        is_persons: A person started the run, and not a script, a service or a review.
    """
    if value is None:
        return DEFAULT_WAIT_S if is_persons else 0.0
    if value == NEVER:
        return 0.0
    try:
        return parse_duration(value)
    except UsageError as error:
        raise UsageError(f"wait_for_limit: {error}, or never") from error
