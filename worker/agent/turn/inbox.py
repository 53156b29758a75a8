"""What waits to be read by the model: steered words and letters, and whether they open a turn.

Rule guarded: nothing admitted is lost and nothing is read twice. A letter that comes after a
shown answer waits for the next turn, so that the answer is not extended.
"""

from collections import deque
from collections.abc import Collection
from typing import Literal

import trio

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.ops import Mail, Notice, TextInput, UserInput

from ..context.token_meter import estimate_tokens

_MAX_SEEN_IDS = 1024  # ids of admitted inputs and letters kept against repeats


class TurnOpening(Value):
    """Why a turn starts. `turn_id` None = make one."""

    started_by: Literal["user", "mail", "resume"]
    turn_id: str | None = None
    output_schema: bytes | None = None  # of a turn that goes on, if said; words bring their own


class Inbox:
    """Pending input of one agent. Whoever waits for more waits for `news` and looks again."""

    def __init__(self) -> None:
        self.news = trio.Event()  # set when something was admitted, and then replaced
        self._inputs: deque[UserInput] = deque()
        self._mail: deque[Mail] = deque()
        self._notices: deque[Notice] = deque()
        self._resume: UserInput | None = None
        self._seen: dict[str, None] = {}  # a dict keeps order, so the oldest can be dropped
        self._mail_joins = True  # phase current_turn; False = next_turn

    def add_input(self, words: UserInput, *, running: bool) -> bool:
        """Take a person's input once. Empty parts mean: go on (ignored while a turn runs).

        Steering reopens the running turn to mail. Returns False for a repeat.
        """
        if not self._is_new(words.input_id):
            return False
        if words.parts:
            self._inputs.append(words)
            self._mail_joins = True
        elif not running:
            self._resume = words
        self._signal_news()
        return True

    def add_mail(self, mail: Mail) -> bool:
        """Take a letter once; False for a repeat."""
        if not self._is_new(mail.mail_id):
            return False
        self._mail.append(mail)
        self._signal_news()
        return True

    def add_notice(self, notice: Notice) -> bool:
        """Take a word of the supervisor once; it opens no turn and keeps none open."""
        if not self._is_new(notice.notice_id):
            return False
        self._notices.append(notice)
        return True

    def drain_notices(self) -> list[Notice]:
        """Take the words of the supervisor that wait for the next request."""
        taken = [*self._notices]
        self._notices.clear()
        return taken

    def next_opening(self) -> TurnOpening | None:
        """The turn that should start now that none runs; None = nothing calls for one."""
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
        """A turn starts: mail joins it, and a wish to go on is fulfilled."""
        self._mail_joins, self._resume = True, None

    def note_answer_shown(self) -> None:
        """An answer was completed: mail waits for the next turn, unless words are pending."""
        if not self._inputs:
            self._mail_joins = False

    def note_tool_called(self) -> None:
        """The turn goes on: mail may join it again."""
        self._mail_joins = True

    @property
    def mail_joins_now(self) -> bool:
        """True if a letter waits that the running turn may read."""
        return self._mail_joins and bool(self._mail)

    def count_other_mail(self, answers_of: Collection[str]) -> int:
        """How many letters wait to be read, the final answers of these authors left out."""
        return sum(
            mail.kind != "final_answer" or mail.author not in answers_of for mail in self._mail
        )

    def wants_attention(self, *, ends_count: bool) -> bool:
        """True if something waits that ends a wait: words, or a letter.

        Args:
            ends_count: Whether another agent's final answer is such a letter too.
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
        """About how much the next request will hold of what waits: four bytes are a token."""
        words = sum(
            len(part.text)
            for one in self._inputs
            for part in one.parts
            if isinstance(part, TextInput)
        )
        letters = sum(len(mail.content) for mail in self._mail) if self._mail_joins else 0
        return estimate_tokens(words + letters)

    def drain(self) -> list[UserInput | Mail]:
        """Take what the next request should hold: words first, then letters if they may join."""
        taken: list[UserInput | Mail] = [*self._inputs]
        self._inputs.clear()
        if self._mail_joins:
            taken += self._mail
            self._mail.clear()
        return taken

    def drain_inputs(self) -> list[UserInput]:
        """Take a person's pending words alone (an interrupted turn keeps them, unread)."""
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
