"""Host names and patterns: one normal form, no pattern that means two things."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.host_patterns import (
    InvalidHost,
    intersect_patterns,
    is_allowed,
    is_listed,
    is_match,
    is_pattern_within,
    normalize_host,
    normalize_pattern,
    split_port,
    with_port,
)

NAMES = st.lists(st.sampled_from(["a", "b", "com", "x-1"]), min_size=1, max_size=4).map(".".join)
PATTERNS = st.one_of(
    NAMES, NAMES.map("*.{}".format), NAMES.map("**.{}".format), st.just("*"), st.just("10.0.0.1")
)
PORTED = st.builds("{}{}".format, PATTERNS, st.sampled_from(["", ":443", ":8443", ":80", ":*"]))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("[::1]", "::1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("10.0.0.1", "10.0.0.1"),
        ("_srv.example.com", "_srv.example.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("2130706433", "2130706433"),  # a name: what it resolves to is judged
    ],
)
def test_a_host_has_one_normal_form(text, normal):
    assert normalize_host(text) == normal


@pytest.mark.parametrize(
    "text",
    ["", ".", "a..b", "-a.com", "a b", "a/b", "a\nb", "bücher.example", "fe80::1%eth0", "u@h",
     "a" * 64 + ".com", "a." * 127 + "a", "a:80", "\x00"],
)  # fmt: skip
def test_what_is_no_host_is_refused(text):
    with pytest.raises(InvalidHost):
        normalize_host(text)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("example.com", ["example.com"], ["a.example.com", "badexample.com"]),
        ("*.example.com", ["a.example.com", "a.b.example.com"], ["example.com", "aexample.com"]),
        ("**.example.com", ["a.example.com", "example.com"], ["badexample.com", "example.com.a"]),
        ("*", ["example.com", "10.0.0.1"], []),
        ("::1", ["::1"], ["::2"]),
    ],
)
def test_a_pattern_names_what_it_says(pattern, yes, no):
    assert all(is_match(host, pattern) for host in yes)
    assert not any(is_match(host, pattern) for host in no)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("*.Example.com.", "*.example.com"),
        ("example.com.:0443", "example.com:443"),
        ("[::1]:80", "[::1]:80"),
        ("[::1]", "::1"),
        ("**.A.org:*", "**.a.org:*"),
        ("*:8080", "*:8080"),
        (" * ", "*"),
    ],
)
def test_a_pattern_loses_case_and_dot_and_keeps_its_port(text, normal):
    assert normalize_pattern(text) == normal


@pytest.mark.parametrize("text", ["", "**", "*.", "*a.com", "a.*.com", "*.*", "*.10.0.0.1", "a b"])
def test_a_pattern_that_cannot_be_read_is_an_error(text):
    with pytest.raises(InvalidHost, match=r"pattern|subdomains"):
        normalize_pattern(text)


@pytest.mark.parametrize("text", ["a.org:0", "a.org:65536", "a.org:", "a.org:x", "[::1]:0", ":80"])
def test_a_port_that_cannot_be_is_an_error(text):
    with pytest.raises(InvalidHost, match=r"not a port|pattern"):
        normalize_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "allows"),
    [
        ("a.org", {80, 443}),
        ("a.org:8443", {8443}),
        ("a.org:443", {443}),
        ("a.org:*", {80, 443, 22, 8443}),
        ("**.org:22", {22}),
        ("*", {80, 443}),
        ("*:22", {22}),
    ],
)
def test_a_pattern_without_a_port_allows_those_of_the_web_alone(pattern, allows):
    ports = {80, 443, 22, 8443}
    assert {port for port in ports if is_allowed("a.org", port, [pattern])} == allows
    if pattern.startswith("*:") or pattern == "*":
        return
    assert is_listed("a.org", [pattern])  # to deny, it names the host whatever the port
    assert ":" not in normalize_pattern(pattern, denies=True)
    assert not any(is_allowed("b.com", port, [pattern]) for port in ports)


def test_a_host_is_named_with_its_port_where_that_is_not_the_webs():
    assert with_port("a.org", 443) == "a.org"
    assert with_port("a.org", 8443) == "a.org:8443"
    assert with_port("::1", 8443) == "[::1]:8443"
    assert split_port("[::1]:8443") == ("::1", "8443")
    assert split_port("::1") == ("::1", "")


@given(
    one=st.lists(PORTED, max_size=4),
    other=st.lists(PORTED, max_size=4),
    host=NAMES,
    port=st.sampled_from([80, 443, 8443, 22]),
)
def test_an_intersection_allows_exactly_the_ports_that_both_allow(one, other, host, port):
    both = is_allowed(host, port, one) and is_allowed(host, port, other)
    assert is_allowed(host, port, intersect_patterns(one, other)) == both


def test_nobody_can_deny_everything_by_a_pattern():
    with pytest.raises(InvalidHost, match=r"unsupported global wildcard domain pattern \"\*\""):
        normalize_pattern("*", denies=True)


@given(one=st.lists(PATTERNS, max_size=4), other=st.lists(PATTERNS, max_size=4), host=NAMES)
def test_an_intersection_names_exactly_what_both_name(one, other, host):
    both = is_listed(host, one) and is_listed(host, other)
    assert is_listed(host, intersect_patterns(one, other)) == both


@given(inner=PATTERNS, outer=PATTERNS, host=NAMES)
def test_what_is_within_names_nothing_else(inner, outer, host):
    if is_pattern_within(inner, outer) and is_match(host, inner):
        assert is_match(host, outer)


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader_and_its_form_is_final(text):
    try:
        pattern = normalize_pattern(text)
    except InvalidHost:
        return
    assert normalize_pattern(pattern) == pattern
