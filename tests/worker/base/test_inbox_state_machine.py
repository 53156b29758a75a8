"""The phases of a turn and the mail: whatever comes when, all is read once, in order, and a mail
never extends an answer that was shown."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from swarm.mailbox.protocol.items import text_of
from swarm.mailbox.protocol.ops import Mail, Notice, TextInput, UserInput
from swarm.worker.base.inbox import Inbox

ANY = st.integers(min_value=0, max_value=10_000)


class Phases(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.inbox = Inbox()
        self.number = 0
        self.words: list[str] = []  # admitted, in order
        self.mails: list[str] = []
        self.wakers: set[str] = set()  # mails that start a turn
        self.notices: list[str] = []
        self.read: list[str] = []  # of all three kinds, as they were drained
        self.continue_inputs: list[str] = []  # to go on, that no turn has fulfilled
        self.past: list[object] = []  # everything admitted, to be repeated
        self.running = False
        self.shown = False  # an answer was completed, and nothing has reopened the turn since

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    @property
    def unread_inputs(self) -> list[str]:
        return [name for name in self.words + self.mails if name not in self.read]

    # --- what comes --------------------------------------------------------------------------

    @rule()
    def words_come(self) -> None:
        words = UserInput(input_id=self.name("w"), parts=(TextInput(text="x"),))
        assert self.inbox.add_input(words, running=self.running)
        self.words.append(words.input_id)
        self.past.append(words)
        self.shown = False

    @rule()
    def a_request_to_go_on_comes(self) -> None:
        request = UserInput(input_id=self.name("g"), parts=())
        assert self.inbox.add_input(request, running=self.running)
        if not self.running:
            self.continue_inputs = [request.input_id]
        self.past.append(request)

    @rule(wakes=st.booleans())
    def a_mail_comes(self, wakes) -> None:
        mail = Mail(
            mail_id=self.name("m"), author="/root", recipient="/root/a", content="x",
            trigger_turn=wakes,
        )  # fmt: skip
        assert self.inbox.add_mail(mail)
        self.mails.append(mail.mail_id)
        self.wakers |= {mail.mail_id} if wakes else set()
        self.past.append(mail)

    @rule()
    def a_notice_comes(self) -> None:
        name = self.name("n")
        notice = Notice(notice_id=name, text=name)
        assert self.inbox.add_notice(notice)
        self.notices.append(notice.notice_id)
        self.past.append(notice)

    @precondition(lambda self: self.past)
    @rule(which=ANY)
    def something_comes_again(self, which) -> None:
        match self.past[which % len(self.past)]:
            case UserInput() as words:
                assert not self.inbox.add_input(words, running=self.running)
            case Mail() as mail:
                assert not self.inbox.add_mail(mail)
            case Notice() as notice:
                assert not self.inbox.add_notice(notice)

    # --- what the turn does ------------------------------------------------------------------

    @precondition(lambda self: not self.running)
    @rule()
    def a_turn_starts_if_something_calls_for_it(self) -> None:
        opening = self.inbox.next_opening()
        waiting = [name for name in self.words if name not in self.read]
        calls = bool(self.wakers - set(self.read))
        if waiting:
            assert (opening.started_by, opening.turn_id) == ("user", waiting[0])
        elif self.continue_inputs:
            assert (opening.started_by, opening.turn_id) == ("resume", self.continue_inputs[0])
        elif calls:
            assert (opening.started_by, opening.turn_id) == ("mail", None)
        else:
            assert opening is None
            return
        self.inbox.begin_turn()
        self.running, self.shown, self.continue_inputs = True, False, []

    @precondition(lambda self: self.running)
    @rule()
    def a_request_is_made(self) -> None:
        self.read += [text_of(note.content) for note in self.inbox.drain_notices()]
        taken = [
            one.input_id if isinstance(one, UserInput) else one.mail_id
            for one in self.inbox.drain()
        ]
        unread = self.unread_inputs
        if self.shown:
            unread = [name for name in unread if name in self.words]
        assert taken == unread
        self.read += taken

    @precondition(lambda self: self.running)
    @rule()
    def an_answer_is_shown(self) -> None:
        self.inbox.note_answer_shown()
        self.shown = self.shown or not any(name in self.words for name in self.unread_inputs)

    @precondition(lambda self: self.running)
    @rule()
    def a_tool_is_called(self) -> None:
        self.inbox.note_tool_called()
        self.shown = False

    @precondition(lambda self: self.running)
    @rule()
    def the_turn_ends_unless_something_is_to_be_read(self) -> None:
        words = any(name in self.words for name in self.unread_inputs)
        assert self.inbox.pending == (words or (bool(self.unread_inputs) and not self.shown))
        self.running = self.inbox.pending

    @precondition(lambda self: self.running)
    @rule()
    def the_turn_is_interrupted(self) -> None:
        taken = [one.input_id for one in self.inbox.drain_inputs()]
        assert taken == [name for name in self.unread_inputs if name in self.words]
        self.read += taken
        self.running = False

    @invariant()
    def nothing_is_read_twice_and_each_kind_in_its_order(self) -> None:
        assert len(self.read) == len(set(self.read))
        for kind in (self.words, self.mails, self.notices):
            of_kind = [name for name in self.read if name in kind]
            assert of_kind == kind[: len(of_kind)]

    def teardown(self) -> None:
        """Whatever waits now is read by one more turn."""
        self.inbox.begin_turn()
        taken = self.inbox.drain()
        names = [one.input_id if isinstance(one, UserInput) else one.mail_id for one in taken]
        assert names == self.unread_inputs


Phases.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestPhases = Phases.TestCase
