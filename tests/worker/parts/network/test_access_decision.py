"""What the proxy lets through: the whole order as one table, and what no input may break."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.proxy import NetworkTarget
from swarm.mailbox.protocol.values.limits import NetworkPolicy
from swarm.worker.parts.network.access_decision import (
    PROTOCOLS,
    Allowed,
    Blocked,
    NetworkRequest,
    is_loopback,
    is_loopback_name,
    is_public,
    judge_addresses,
    judge_request,
)
from swarm.worker.parts.network.blocked_texts import BLOCKED_RESPONSES, blocked_text

OPEN = NetworkPolicy(allow=("*",), deny=("*.bad.com", "worse.com"), ask=("odd.com",))
LIMITED = NetworkPolicy(allow=("*",), deny=("worse.com",), mode="limited")
LISTED = NetworkPolicy(allow=("good.com", "127.0.0.1", "localhost", "10.1.2.3"))
LOCAL = NetworkPolicy(allow=("good.com", "127.0.0.1"), allow_local_binding=True)
NO_SOCKS = NetworkPolicy(allow=("*",), enable_socks5=False)
GET, POST, TUNNEL, SOCKS = ("request", "GET"), ("request", "POST"), ("tunnel", ""), ("socks", "")


def request_for(host, kind="tunnel", method=""):
    target = NetworkTarget(host=host, port=443, protocol=PROTOCOLS[kind])
    return NetworkRequest(target=target, kind=kind, method=method)


@pytest.mark.parametrize(
    ("policy", "host", "how", "reason"),
    [
        (OPEN, "good.com", TUNNEL, None),
        (OPEN, "a.bad.com", TUNNEL, "denied"),
        (OPEN, "bad.com", TUNNEL, None),
        (OPEN, "worse.com", GET, "denied"),
        (OPEN, "odd.com", GET, "not_allowed"),
        (OPEN, "127.0.0.1", GET, "not_allowed_local"),  # `*` does not mean this machine
        (OPEN, "localhost", GET, "not_allowed_local"),
        (OPEN, "deep.localhost", GET, "not_allowed_local"),
        (OPEN, "::1", TUNNEL, "not_allowed_local"),
        (OPEN, "169.254.169.254", GET, "not_allowed_local"),
        (OPEN, "::ffff:a9fe:a9fe", GET, "not_allowed_local"),
        (OPEN, "8.8.8.8", TUNNEL, None),
        (OPEN, "good.com", SOCKS, None),
        (NO_SOCKS, "good.com", SOCKS, "other"),
        (NO_SOCKS, "good.com", TUNNEL, None),
        (LIMITED, "good.com", GET, None),
        (LIMITED, "good.com", ("request", "HEAD"), None),
        (LIMITED, "good.com", ("request", "OPTIONS"), None),
        (LIMITED, "good.com", POST, "method_not_allowed"),
        (LIMITED, "good.com", ("request", "get"), "method_not_allowed"),
        (LIMITED, "good.com", TUNNEL, "mitm_required"),
        (LIMITED, "good.com", SOCKS, "method_not_allowed"),
        (LIMITED, "worse.com", TUNNEL, "denied"),
        (LISTED, "good.com", TUNNEL, None),
        (LISTED, "other.com", TUNNEL, "not_allowed"),
        (LISTED, "127.0.0.1", TUNNEL, None),
        (LISTED, "127.0.0.2", TUNNEL, "not_allowed_local"),
        (LISTED, "10.1.2.3", TUNNEL, None),
        (LOCAL, "127.0.0.1", TUNNEL, None),
        (LOCAL, "10.1.2.3", TUNNEL, "not_allowed"),
        (NetworkPolicy(), "good.com", TUNNEL, "not_allowed"),
        (NetworkPolicy(), "10.1.2.3", TUNNEL, "not_allowed_local"),
    ],
)
def test_the_order_of_reasons(policy, host, how, reason):
    judged = judge_request(request_for(host, *how), policy)
    assert (judged.reason if isinstance(judged, Blocked) else None) == reason


@pytest.mark.parametrize(
    ("allow", "port", "reason"),
    [
        (("good.com",), 443, None),
        (("good.com",), 80, None),
        (("good.com",), 22, "not_allowed"),
        (("good.com:22",), 22, None),
        (("good.com:22",), 443, "not_allowed"),
        (("**.com:*",), 5432, None),
        (("*",), 25, "not_allowed"),
        (("*:25",), 25, None),
    ],
)
@pytest.mark.parametrize("kind", ["request", "tunnel", "socks"])
def test_an_allowed_host_allows_no_port_that_nobody_named(allow, port, reason, kind):
    target = NetworkTarget(host="good.com", port=port, protocol=PROTOCOLS[kind])
    judged = judge_request(
        NetworkRequest(target=target, kind=kind, method="GET"), NetworkPolicy(allow=allow)
    )
    assert (judged.reason if isinstance(judged, Blocked) else None) == reason


def test_a_denial_holds_for_every_port_and_this_machine_for_none_that_is_not_named():
    def judge(host, port, **policy):
        target = NetworkTarget(host=host, port=port, protocol="https")
        judged = judge_request(
            NetworkRequest(target=target, kind="tunnel"), NetworkPolicy(**policy)
        )
        return judged.reason if isinstance(judged, Blocked) else None

    assert judge("a.com", 8443, allow=("*:*",), deny=("a.com",)) == "denied"
    assert judge("a.com", 8443, allow=("*:*",), ask=("a.com",)) == "not_allowed"
    assert judge("127.0.0.1", 5432, allow=("127.0.0.1:3000",)) == "not_allowed_local"
    assert judge("127.0.0.1", 3000, allow=("127.0.0.1:3000",)) is None
    assert judge("127.0.0.1", 3000, allow=("*:*",)) == "not_allowed_local"


def test_limited_mode_passes_no_body_whatever_the_method_is():
    target = NetworkTarget(host="good.com", port=80, protocol="http")
    for method in ("GET", "HEAD", "OPTIONS"):
        asked = NetworkRequest(target=target, kind="request", method=method, has_body=True)
        assert judge_request(asked, LIMITED) == Blocked(reason="body_not_allowed")
        assert isinstance(judge_request(asked, OPEN), Allowed)


@pytest.mark.parametrize(
    ("policy", "host", "found", "kept"),
    [
        (OPEN, "good.com", ("8.8.8.8", "1.1.1.1"), ("8.8.8.8", "1.1.1.1")),
        (OPEN, "good.com", ("8.8.8.8", "10.0.0.1"), None),  # one private one spoils all
        (OPEN, "good.com", ("127.0.0.1",), None),
        (OPEN, "good.com", ("fd00::1",), None),
        (OPEN, "good.com", (), None),  # unknown, or too slow
        (LISTED, "localhost", ("127.0.0.1", "::1"), ("127.0.0.1", "::1")),
        (LISTED, "localhost", ("10.9.9.9", "::1"), ("::1",)),
        (LISTED, "localhost", ("10.9.9.9",), None),
        (LISTED, "10.1.2.3", ("10.1.2.3",), ("10.1.2.3",)),
        (LOCAL, "good.com", ("10.0.0.1",), ("10.0.0.1",)),
        (LOCAL, "good.com", (), ()),
    ],
)
def test_what_a_name_resolves_to_is_judged(policy, host, found, kept):
    judged = judge_addresses(host, found, policy)
    assert judged == (Blocked(reason="not_allowed_local") if kept is None else kept)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.0.1", "169.254.169.254",
     "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1",
     "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
     "::", "::1", "fc00::1", "fdff::1", "fe80::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
     "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1", "64:ff9b:1::1", "fe80::1%1", "name", "",
     "::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1", "2a00::5efe:7f00:1", "2a00::200:5efe:a00:1",
     "2001:0:7f00:1::", "2001:0:808:808::80ff:fffe"],
)  # fmt: skip
def test_what_is_not_public_is_known(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "::ffff:8.8.8.8",
                "64:ff9b::808:808"]
)  # fmt: skip
def test_what_is_public_is_known(address):
    assert is_public(address)


@given(st.ip_addresses())
def test_no_loopback_address_is_public(address):
    if is_loopback(str(address)):
        assert not is_public(str(address))


@given(
    host=st.one_of(
        st.ip_addresses().map(str), st.sampled_from(["good.com", "localhost", "a.bad.com"])
    ),
    allow=st.lists(st.sampled_from(["*", "good.com", "**.com"]), max_size=3),
    kind=st.sampled_from(["request", "tunnel", "socks"]),
)
def test_only_what_is_listed_passes_and_nothing_local_unless_named(host, allow, kind):
    policy = NetworkPolicy(allow=tuple(allow), deny=("*.bad.com",))
    judged = judge_request(request_for(host, kind, "GET"), policy)
    if isinstance(judged, Allowed):
        assert allow
        assert host != "a.bad.com"
        assert not is_loopback_name(host)
        assert host == "good.com" or is_public(host)


def test_every_reason_has_its_response_and_its_words():
    assert {reason: response[0] for reason, response in BLOCKED_RESPONSES.items()} == {
        "not_allowed": "blocked-by-allowlist",
        "not_allowed_local": "blocked-by-allowlist",
        "denied": "blocked-by-denylist",
        "method_not_allowed": "blocked-by-method-policy",
        "body_not_allowed": "blocked-by-method-policy",
        "mitm_required": "blocked-by-mitm-required",
        "proxy_disabled": "blocked-by-policy",
        "other": "blocked-by-policy",
    }
    assert blocked_text("a.com", "not_allowed") == (
        'Network access to "a.com" was blocked: domain is not on the allowlist for the current '
        "sandbox mode."
    )
    assert blocked_text("a.com", "other").endswith("request is blocked by network policy.")
