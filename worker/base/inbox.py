"""Pending input, mail and notices of one agent, and whether they start a turn.

Nothing accepted is lost or read twice. Mail that arrives after a shown answer waits for the next
turn, so that the answer is not extended.
"""

from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Literal

import trio

from swarm.mailbox.base.entropy import SYSTEM_ENTROPY
from swarm.mailbox.protocol.items import Message, text_message
from swarm.mailbox.protocol.ops import Mail, Notice, TextInput, UserInput
from swarm.mailbox.protocol.values.base import Value

from .token_meter import estimate_tokens

_MAX_SEEN_IDS = 1024  # ids of accepted messages, kept to detect repeats


class TurnOpening(Value):
    """Why a turn starts. `turn_id` None: create one."""

    started_by: Literal["user", "mail", "resume"]
    turn_id: str | None = None
    output_schema: bytes | None = None  # of a resumed turn, if given; new input brings its own


class Inbox:
    """Pending input of one agent. To wait for more, wait for `news` and check again."""

    def __init__(self, new_id: Callable[[], str] = SYSTEM_ENTROPY.new_id) -> None:
        self._new_id = new_id
        self.news = trio.Event()  # set when something was accepted, and then replaced
        self._inputs: deque[UserInput] = deque()
        self._mail: deque[Mail] = deque()
        self._notices: deque[Notice] = deque()
        self._resume: UserInput | None = None
        self._seen: dict[str, None] = {}  # a dict keeps order, so the oldest can be dropped
        self._checked: set[str] = set()  # ids of pending inputs that hooks have seen
        self._mail_joins = True  # phase current_turn; False = next_turn

    def add_input(self, given: UserInput, *, running: bool) -> bool:
        """Accept a person's input once. Empty parts resume a turn (ignored while a turn runs).

        Input during a turn lets mail join that turn again. Returns False for a repeat.
        """
        if not self._is_new(given.input_id):
            return False
        if given.parts:
            self._inputs.append(given)
            self._mail_joins = True
        elif not running:
            self._resume = given
        self._signal_news()
        return True

    def add_note(self, text: str) -> None:
        """Accept a notice of this agent's own for its model."""
        self.add_notice(Notice(notice_id=self._new_id(), text=text))

    def add_mail(self, mail: Mail) -> bool:
        """Accept mail once; False for a repeat."""
        if not self._is_new(mail.mail_id):
            return False
        self._mail.append(mail)
        self._signal_news()
        return True

    def add_notice(self, notice: Notice) -> bool:
        """Accept a notice of the supervisor once; it starts no turn and keeps none open."""
        if not self._is_new(notice.notice_id):
            return False
        self._notices.append(notice)
        return True

    def drain_notices(self) -> list[Message]:
        """Remove and return the notices, as the next request holds them."""
        taken = [text_message("developer", notice.text) for notice in self._notices]
        self._notices.clear()
        return taken

    def next_opening(self) -> TurnOpening | None:
        """Return the turn that should start when none runs; None if none should."""
        if self._inputs:
            return TurnOpening(started_by="user", turn_id=self._inputs[0].input_id)
        if self._resume is not None:
            return TurnOpening(
                started_by="resume",
                turn_id=self._resume.input_id,
                output_schema=self._resume.output_schema,
            )
        if any(mail.trigger_turn for mail in self._mail):
            return TurnOpening(started_by="mail")
        return None

    def begin_turn(self) -> None:
        """A turn starts: mail joins it, and a requested resume is done."""
        self._mail_joins = True
        self._resume = None

    def note_answer_shown(self) -> None:
        """An answer was completed: mail waits for the next turn, unless input is pending."""
        if not self._inputs:
            self._mail_joins = False

    def note_tool_called(self) -> None:
        """The turn goes on: mail may join it again."""
        self._mail_joins = True

    @property
    def mail_joins_now(self) -> bool:
        """True if mail is pending that the running turn may read."""
        return self._mail_joins and bool(self._mail)

    def count_other_mail(self, answers_of: Collection[str]) -> int:
        """Return the number of pending mails without the final answers of these authors."""
        return sum(
            mail.kind != "final_answer" or mail.author not in answers_of for mail in self._mail
        )

    def wants_attention(self, *, ends_count: bool) -> bool:
        """True if something is pending that ends a wait: input or mail.

        Args:
            ends_count: Whether another agent's final answer counts too.
        """
        return bool(self._inputs) or any(
            ends_count or mail.kind != "final_answer" for mail in self._mail
        )

    @property
    def pending(self) -> bool:
        """True if the running turn has something to read before it may end."""
        return bool(self._inputs) or self.mail_joins_now

    @property
    def waiting_tokens(self) -> int:
        """Estimated tokens of pending text that the next request will hold."""
        inputs = sum(
            len(part.text)
            for one in self._inputs
            for part in one.parts
            if isinstance(part, TextInput)
        )
        mails = sum(len(mail.content) for mail in self._mail) if self._mail_joins else 0
        return estimate_tokens(inputs + mails)

    def drain(self) -> list[UserInput | Mail]:
        """Remove and return what the next request holds: input first, then mail if it may join."""
        taken: list[UserInput | Mail] = [*self._inputs]
        self._inputs.clear()
        if self._mail_joins:
            taken += self._mail
            self._mail.clear()
        return taken

    def next_unchecked_input(self) -> UserInput | None:
        """The oldest pending input that hooks have not seen; it counts as seen from now on."""
        for given in self._inputs:
            if given.input_id not in self._checked:
                self._checked.add(given.input_id)
                return given
        return None

    def take_check(self, given: UserInput) -> bool:
        """True if hooks have seen this input; asked once, when it is recorded."""
        seen = given.input_id in self._checked
        self._checked.discard(given.input_id)
        return seen

    def remove_input(self, given: UserInput) -> None:
        """Remove a pending input that a hook has refused."""
        with suppress(ValueError):
            self._inputs.remove(given)

    def drain_inputs(self) -> list[UserInput]:
        """Remove and return only the pending input (an interrupted turn records it, unread)."""
        taken = [*self._inputs]
        self._inputs.clear()
        return taken

    def _signal_news(self) -> None:
        news, self.news = self.news, trio.Event()
        news.set()

    def _is_new(self, name: str) -> bool:
        if name in self._seen:
            return False
        self._seen[name] = None
        if len(self._seen) > _MAX_SEEN_IDS:
            del self._seen[next(iter(self._seen))]
        return True
