"""Where a request goes: addresses as bytes, and the proxy that the environment names."""

import pytest

from swarm.worker.gateway.http.http_route import address_of, find_proxy


@pytest.mark.parametrize(
    ("url", "host", "port", "target", "shown"),
    [
        ("https://api.example.com/v1/responses", "api.example.com", None, "/v1/responses",
         "api.example.com"),
        ("http://localhost:8080/v1", "localhost", 8080, "/v1", "localhost:8080"),
        ("https://example.com:443/x", "example.com", 443, "/x", "example.com"),
        ("http://[::1]:9/x", "::1", 9, "/x", "[::1]:9"),
        ("https://example.com", "example.com", None, "/", "example.com"),
        ("https://example.com/a?api-version=1&b=%20c", "example.com", None,
         "/a?api-version=1&b=%20c", "example.com"),
        ("https://example.com/ä b", "example.com", None, "/%C3%A4%20b", "example.com"),
        ("https://bücher.example/x", "xn--bcher-kva.example", None, "/x", "xn--bcher-kva.example"),
    ],
)  # fmt: skip
def test_an_address_is_sent_as_bytes_that_every_server_reads(url, host, port, target, shown):
    address = address_of(url)
    found = address.url
    assert (found.host, found.port, found.target) == (host.encode(), port, target.encode())
    assert dict(address.headers) == {b"host": shown.encode()}


def test_a_login_in_an_address_is_said_as_a_header_and_not_in_the_request_line():
    address = address_of("https://me:p%40ss@example.com/x")
    assert dict(address.headers)[b"authorization"] == b"Basic bWU6cEBzcw=="
    assert address.url.target == b"/x"


@pytest.mark.parametrize(
    "url", ["", "example.com", "ftp://example.com/x", "https://", "http://host:notaport/",
            "http://host:70000/", "http://[::1/x", "https://\udcff.example/"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError):
        address_of(url)


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({}, "https://a.example/v1", None),
        ({"HTTPS_PROXY": "http://p:3128"}, "https://a.example/v1", ("http", "p", 3128)),
        ({"HTTPS_PROXY": "http://p:3128"}, "http://a.example/v1", None),
        ({"ALL_PROXY": "p:1080"}, "http://a.example/v1", ("http", "p", 1080)),
        ({"HTTPS_PROXY": "https://p"}, "https://a.example/v1", ("https", "p", None)),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}, "https://a.example/",
         ("http", "low", 1)),
        ({"ALL_PROXY": "http://p:1"}, "http://localhost:11434/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://[::1]:11434/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://0.0.0.0:8000/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://[::]:8000/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://127.8.9.10:8000/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://[::ffff:127.0.0.1]:8000/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://models.localhost:8000/v1", None),
        ({"ALL_PROXY": "http://p:1"}, "http://localhost.example:8000/v1", ("http", "p", 1)),
        ({"ALL_PROXY": "http://p:1"}, "http://10.0.0.1:8000/v1", ("http", "p", 1)),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "x, .a.example"}, "https://b.a.example", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example:8443"}, "https://a.example:8443", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://a.example/", None),
    ],
)  # fmt: skip
def test_the_proxy_is_the_environments(environment, variables, url, proxy):
    for name, value in variables.items():
        environment.setenv(name, value)
    found = find_proxy(url)
    if proxy is None:
        assert found is None
    else:
        assert found is not None
        scheme, host, port = proxy
        assert (found.url.scheme, found.url.host, found.url.port) == (
            scheme.encode(), host.encode(), port,
        )  # fmt: skip


def test_a_proxys_login_is_not_part_of_its_address(environment):
    environment.setenv("HTTPS_PROXY", "http://me:s%3Acret@p:1")
    found = find_proxy("https://a.example/")
    assert found is not None
    assert found.login == (b"me", b"s:cret")
    assert b"cret" not in found.url.host + found.url.target


@pytest.mark.parametrize("proxy", ["socks5://p:1", "http://", "http://p:x"])
def test_a_proxy_that_cannot_be_one_is_refused(environment, proxy):
    environment.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(ValueError):
        find_proxy("https://a.example/")
