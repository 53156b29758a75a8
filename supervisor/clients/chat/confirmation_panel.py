"""A yes or no that the conversation itself asks for, before it does what cannot be undone by a key.

Questions of agents are in question.py.
"""

import asyncio
from collections.abc import Callable

_FOOT = ("  y yes · n no",)


class ConfirmationPanel:
    """At most one question is open; one that a second takes the place of is answered no.

    `changed` is called when there is something new to show.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._text: tuple[str, ...] = ()
        self._answer: asyncio.Future[bool] | None = None

    @property
    def is_open(self) -> bool:
        """True if a question waits for `y` or `n`."""
        return self._answer is not None

    async def ask(self, *lines: str) -> bool:
        """Show these lines (cleaned) until the person answers; True only for a yes."""
        self.close()
        self._text = lines
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._changed()
        return await answer

    def press(self, key: str) -> None:
        """One key: `y` is a yes; `n`, `x` and `esc` are a no; others do nothing."""
        if key == "y":
            self._resolve(yes=True)
        elif key in ("n", "x", "esc"):
            self.close()

    def close(self) -> None:
        """Answer no, if a question is open."""
        self._resolve(yes=False)

    def lines(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The question, and below it the keys; both empty if there is none."""
        return (self._text, _FOOT) if self.is_open else ((), ())

    def _resolve(self, *, yes: bool) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(yes)
