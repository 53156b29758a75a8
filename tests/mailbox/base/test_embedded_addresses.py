"""IPv6 addresses that stand for IPv4 ones are judged by both."""

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.embedded_addresses import embedded_ipv4, meant_addresses

FORMS = (
    "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}", "::{}", "2a00:1::5efe:{}", "2a00:1::200:5efe:{}",
    "2a00:1:0:0:0:5efe:{}",
)  # fmt: skip


@given(st.ip_addresses(v=4), st.sampled_from(FORMS))
def test_every_form_holds_its_address(inner: IPv4Address, form: str) -> None:
    address = IPv6Address(form.format(inner))
    if int(inner) > 1 or form != "::{}":  # `::` and `::1` are addresses of their own
        assert inner in embedded_ipv4(address)
        assert meant_addresses(f"{address}%eth0") == (*embedded_ipv4(address), address)


@given(st.ip_addresses(v=4))
def test_6to4_and_teredo_hold_theirs(inner: IPv4Address) -> None:
    high = f"{int(inner) >> 16:x}:{int(inner) & 0xFFFF:x}"
    assert inner in embedded_ipv4(IPv6Address(f"2002:{high}::1"))
    client = int(inner) ^ 0xFFFF_FFFF
    teredo = IPv6Address(f"2001:0:808:808:0:0:{client >> 16:x}:{client & 0xFFFF:x}")
    assert inner in embedded_ipv4(teredo)
