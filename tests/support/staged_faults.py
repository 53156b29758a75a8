"""Kills and failures at any step of staged writes: before it, or when it has been done."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from swarm.supervisor.parts.undo import staged_writes

STEPS = (
    "copy_sparse", "keep_attributes", "put_new", "put_over", "put_away", "write_in_place",
    "_remove_folder", "_unlink", "_exchange",
)  # fmt: skip


class Killed(BaseException):
    """Stands for SIGKILL: nothing below catches it."""


def full_disk() -> OSError:
    return OSError(28, "No space left on device")


@contextmanager
def fault_at(
    number: int | None, make: Callable[[], BaseException] = Killed, *, after: bool = False
) -> Iterator[None]:
    """The step with this number fails; None: none does. `after`: it is done all the same."""
    counter = itertools.count()
    real = {name: getattr(staged_writes, name) for name in STEPS}

    def wrapped(work):
        def step(*given, **named):
            fails = next(counter) == number
            if fails and not after:
                raise make()
            done = work(*given, **named)
            if fails:
                raise make()
            return done

        return step

    for name, work in real.items():
        setattr(staged_writes, name, wrapped(work))
    try:
        yield
    finally:
        for name, work in real.items():
            setattr(staged_writes, name, work)


@contextmanager
def before_step(
    name: str, act: Callable[[str], None], module: ModuleType = staged_writes
) -> Iterator[None]:
    """Call `act` with the name of the place before each of these steps."""
    real = getattr(module, name)

    def step(first, *given, **named):
        act(getattr(first, "name", str(first)))
        return real(first, *given, **named)

    setattr(module, name, step)
    try:
        yield
    finally:
        setattr(module, name, real)
