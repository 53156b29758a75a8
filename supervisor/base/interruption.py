"""Lets Ctrl-C in where work in a thread may end: Trio cannot end a thread by itself."""

from contextlib import suppress

import trio


def let_interrupts_in() -> None:
    """Raise what is to end the task that waits for this thread: KeyboardInterrupt, or Cancelled.

    Does nothing in a thread that Trio did not start. Called where nothing is half done.
    """
    with suppress(RuntimeError):
        trio.from_thread.run(trio.lowlevel.checkpoint)
