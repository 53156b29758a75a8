"""Where a request goes is read in one way only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.parts.network.http_targets import (
    BadTarget,
    HttpTarget,
    read_absolute,
    read_authority,
    read_inside,
)


@pytest.mark.parametrize(
    ("text", "host", "port", "path"),
    [
        ("http://Example.com/a?b=c", "example.com", 80, "/a?b=c"),
        ("HTTP://example.com:8080", "example.com", 8080, "/"),
        ("http://example.com?x", "example.com", 80, "/?x"),
        ("http://[::1]:1/", "::1", 1, "/"),
        ("http://10.0.0.1/@b.com", "10.0.0.1", 80, "/@b.com"),
    ],
)
def test_a_whole_url_is_read(text, host, port, path):
    place = read_absolute(text, method="GET")
    assert (place.host, place.port, place.path) == (host, port, path)


def test_options_of_a_server_itself():
    assert read_absolute("http://a.com", method="OPTIONS").path == "*"


@pytest.mark.parametrize(
    "text",
    ["/path", "*", "https://a.com/", "ftp://a.com/", "http://", "http:///x", "http://u@a.com/",
     "http://u:p@a.com/", "http://a.com#x", "http://a.com:0/", "http://a.com:65536/",
     "http://a.com:/", "http://a.com:8 0/", "http://a%2ecom/", "http://a.com\\@b.com/",
     "http://[::1/", "http://[fe80::1%25eth0]/"],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(text):
    with pytest.raises(BadTarget):
        read_absolute(text, method="GET")


def test_a_tunnel_needs_a_port():
    assert read_authority("a.com:443", default_port=None) == HttpTarget(
        host="a.com", port=443, authority="a.com:443"
    )
    with pytest.raises(BadTarget):
        read_authority("a.com", default_port=None)


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text):
    for read in (
        lambda: read_absolute(text, method="GET"),
        lambda: read_absolute("http://" + text, method="GET"),
        lambda: read_authority(text, default_port=80),
    ):
        try:
            place = read()
        except BadTarget:
            continue
        assert 0 < place.port < 65536
        assert place.host


TUNNEL = HttpTarget(host="a.org", port=443, authority="a.org:443")


@pytest.mark.parametrize(
    ("text", "method", "host", "path"),
    [
        ("/x?y", "GET", "a.org", "/x?y"),
        ("/", "GET", "A.org:443", "/"),
        ("*", "OPTIONS", "a.org", "*"),
        ("*", "GET", "a.org", None),
        ("/x#y", "GET", "a.org", None),
        ("https://a.org/x", "GET", "a.org", None),
        ("x", "GET", "a.org", None),
        ("/x", "GET", "b.org", None),
        ("/x", "GET", "a.org:444", None),
        ("/x", "GET", "me@a.org", None),
        ("/x", "GET", "", None),
        ("/x", "GET", "a.orga.org", None),
    ],
)
def test_within_a_tunnel_only_its_own_server_is_asked(text, method, host, path):
    if path is None:
        with pytest.raises(BadTarget):
            read_inside(text, method=method, host=host, tunnel=TUNNEL)
    else:
        found = read_inside(text, method=method, host=host, tunnel=TUNNEL)
        assert (found.host, found.port, found.path) == ("a.org", 443, path)
