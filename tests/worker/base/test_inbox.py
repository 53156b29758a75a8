"""When words and mails are read, and what they start."""

from swarm.mailbox.protocol.ops import Mail, TextInput, UserInput
from swarm.worker.base.inbox import Inbox, TurnOpening


def words(name, text="hi"):
    return UserInput(input_id=name, parts=(TextInput(text=text),) if text else ())


def mail_named(name, *, trigger=False):
    return Mail(
        mail_id=name, author="/root", recipient="/root/a", content=name, trigger_turn=trigger
    )


def test_words_open_a_turn_that_bears_their_name_and_are_read_before_mails():
    inbox = Inbox()
    inbox.add_mail(mail_named("m"))
    assert inbox.next_opening() is None  # a mail without trigger starts nothing
    inbox.add_input(words("u"), running=False)
    assert inbox.next_opening() == TurnOpening(started_by="user", turn_id="u")
    inbox.begin_turn()
    assert inbox.drain() == [words("u"), mail_named("m")]
    assert not inbox.pending
    assert inbox.next_opening() is None


def test_what_comes_twice_is_taken_once():
    inbox = Inbox()
    assert inbox.add_input(words("u"), running=False)
    assert not inbox.add_input(words("u"), running=False)
    assert inbox.add_mail(mail_named("m"))
    assert not inbox.add_mail(mail_named("m"))
    assert len(inbox.drain()) == 2
    assert not inbox.add_input(words("u"), running=False)  # also after it was read


def test_a_mail_with_trigger_starts_a_turn():
    inbox = Inbox()
    inbox.add_mail(mail_named("m", trigger=True))
    assert inbox.next_opening() == TurnOpening(started_by="mail")


def test_mail_waits_for_the_next_turn_once_an_answer_was_shown():
    inbox = Inbox()
    inbox.begin_turn()
    inbox.note_answer_shown()
    inbox.add_mail(mail_named("m"))
    assert not inbox.pending
    assert inbox.drain() == []
    inbox.begin_turn()
    assert inbox.drain() == [mail_named("m")]


def test_a_tool_call_or_steering_reopens_the_turn_to_mail():
    for reopen in (Inbox.note_tool_called, lambda inbox: inbox.add_input(words("s"), running=True)):
        inbox = Inbox()
        inbox.begin_turn()
        inbox.note_answer_shown()
        inbox.add_mail(mail_named("m"))
        reopen(inbox)
        assert inbox.mail_joins_now
        assert mail_named("m") in inbox.drain()


def test_an_answer_does_not_close_the_turn_to_mail_while_words_are_pending():
    inbox = Inbox()
    inbox.begin_turn()
    inbox.add_input(words("s"), running=True)
    inbox.note_answer_shown()
    inbox.add_mail(mail_named("m"))
    assert inbox.mail_joins_now


def test_empty_words_mean_go_on_and_nothing_while_a_turn_runs():
    inbox = Inbox()
    inbox.add_input(words("r", ""), running=False)
    assert inbox.next_opening() == TurnOpening(started_by="resume", turn_id="r")
    inbox.begin_turn()
    assert inbox.next_opening() is None
    inbox.add_input(words("s", ""), running=True)
    assert inbox.next_opening() is None
    assert inbox.drain() == []
