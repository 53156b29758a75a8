"""What travels is what is new, and its base is named by count and digest."""

from swarm.mailbox.protocol.items import encode_item, text_message
from swarm.mailbox.protocol.sampling import chain_digest
from swarm.worker.agent.context.conversation_history import ConversationHistory

ONE, TWO, THREE = (text_message("user", word) for word in ("one", "two", "three"))


def digest(*items):
    value = b""
    for item in items:
        value = chain_digest(value, encode_item(item))
    return value


def test_only_new_items_are_sent_and_the_base_is_what_was_sent_before():
    history = ConversationHistory()
    history.append(ONE)
    first = history.unsent()
    assert (first.base_count, first.base_digest) == (0, b"")
    history.mark_sent()
    history.append(TWO)
    second = history.unsent()
    assert (second.base_count, second.base_digest) == (1, digest(ONE))
    assert [bytes(raw) for raw in second.items] == [encode_item(TWO)]
    assert history.digest == digest(ONE, TWO)


def test_a_gateway_that_forgot_gets_everything():
    history = ConversationHistory()
    for item in (ONE, TWO):
        history.append(item)
    history.mark_sent()
    history.forget_sent()
    whole = history.unsent()
    assert (whole.base_count, whole.base_digest, len(whole.items)) == (0, b"", 2)


def test_a_replaced_history_is_sent_whole_and_has_the_digest_of_its_items():
    history = ConversationHistory()
    for item in (ONE, TWO):
        history.append(item)
    history.mark_sent()
    history.replace((*history.all_items()[:1],))
    history.append(THREE)
    assert history.digest == digest(ONE, THREE)
    assert history.unsent().base_count == 0
    assert len(history) == 2
