"""A server leads the hub to public addresses, and to others only if it is among them itself."""

import pytest

from swarm.worker.parts.mcp.reachable_addresses import Reach, may_lead_to, reach_of


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("8.8.8.8", Reach.PUBLIC),
        ("2606:4700::1111", Reach.PUBLIC),
        ("127.0.0.1", Reach.LOOPBACK),
        ("::1", Reach.LOOPBACK),
        ("::ffff:127.0.0.1", Reach.LOOPBACK),
        ("10.0.0.1", Reach.PRIVATE),
        ("192.168.1.1", Reach.PRIVATE),
        ("100.64.0.1", Reach.PRIVATE),
        ("fd00::1", Reach.PRIVATE),
        ("64:ff9b::a00:1", Reach.PRIVATE),
        ("2002:a00:1::1", Reach.PRIVATE),
        ("::ffff:0:127.0.0.1", Reach.LOOPBACK),
        ("::ffff:0:8.8.8.8", Reach.PUBLIC),
        ("::127.0.0.1", Reach.LOOPBACK),
        ("2a00::5efe:a00:1", Reach.PRIVATE),
        ("64:ff9b:1::1", Reach.CLOSED),
        ("169.254.169.254", Reach.CLOSED),
        ("::ffff:169.254.169.254", Reach.CLOSED),
        ("fe80::1%eth0", Reach.CLOSED),
        ("0.0.0.0", Reach.CLOSED),
        ("::", Reach.CLOSED),
        ("224.0.0.1", Reach.CLOSED),
        ("255.255.255.255", Reach.CLOSED),
    ],
)
def test_the_reach_of_an_address(address, reach):
    assert reach_of(address) is reach


def test_text_that_is_no_address_is_an_error():
    with pytest.raises(ValueError):
        reach_of("localhost")


@pytest.mark.parametrize("own", list(Reach))
def test_everybody_may_name_a_public_address_and_nobody_a_closed_one(own):
    assert may_lead_to({own}, Reach.PUBLIC)
    assert not may_lead_to({own}, Reach.CLOSED)


@pytest.mark.parametrize(
    ("own", "loopback", "private"),
    [
        ({Reach.PUBLIC}, False, False),
        ({Reach.PRIVATE}, False, True),
        ({Reach.LOOPBACK}, True, True),
        ({Reach.LOOPBACK, Reach.PUBLIC}, False, False),  # a name with two faces
        ({Reach.CLOSED}, False, False),
        (set(), False, False),
    ],
)
def test_other_addresses_are_named_from_within(own, loopback, private):
    assert may_lead_to(own, Reach.LOOPBACK) is loopback
    assert may_lead_to(own, Reach.PRIVATE) is private
