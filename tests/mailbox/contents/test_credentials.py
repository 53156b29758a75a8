"""A ticket says what the supervisor said, or nothing."""

from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.contents.credentials import open_ticket, seal_ticket, ticket_key
from swarm.mailbox.protocol.proxy import NetworkTicket
from swarm.mailbox.protocol.values.limits import NetworkPolicy

TICKET = NetworkTicket(agent="/root/a", policy=NetworkPolicy(allow=("example.com",)), asks=True)
KEY = ticket_key(b"run key")


def test_a_sealed_ticket_opens_to_itself():
    assert open_ticket(seal_ticket(TICKET, KEY), KEY) == TICKET


def test_a_ticket_of_another_run_opens_to_nothing():
    assert open_ticket(seal_ticket(TICKET, ticket_key(b"another")), KEY) is None


@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_ticket_changed_anywhere_opens_to_nothing(place, change):
    sealed = bytearray(seal_ticket(TICKET, KEY))
    sealed[place % len(sealed)] ^= change
    assert open_ticket(bytes(sealed), KEY) is None


@given(st.binary(max_size=80))
def test_no_bytes_pass_for_a_ticket(data):
    assert open_ticket(data, KEY) is None
