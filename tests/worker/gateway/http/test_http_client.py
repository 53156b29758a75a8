"""The way to a provider through a proxy of the environment, and past it."""

import pytest
import trio

from swarm.worker.gateway.http.http_client import HttpRequest, TransportFailed, open_http


async def status_of(base_url):
    with trio.fail_after(10):
        async with open_http(base_url) as client:
            post = HttpRequest(f"{base_url}/x", {"x-api-key": "k"}, b"{}", idle_s=5.0)
            async with client.post(post) as reply:
                return reply.status


async def test_a_provider_elsewhere_is_reached_through_the_proxy(model_server, environment):
    environment.setenv("HTTP_PROXY", model_server.origin)
    model_server.add(status=204)
    assert await status_of("http://models.invalid/v1") == 204
    (seen,) = model_server.requests
    assert seen.target == "http://models.invalid/v1/x"


async def test_a_secure_provider_is_reached_by_a_tunnel_that_never_sees_the_key(
    model_server, environment
):
    environment.setenv("HTTPS_PROXY", model_server.origin)
    model_server.add(status=403)
    with pytest.raises(TransportFailed) as caught:
        await status_of("https://models.invalid/v1")
    assert caught.value.phase == "connect"
    (seen,) = model_server.requests
    assert (seen.method, seen.target) == ("CONNECT", "models.invalid:443")
    assert "x-api-key" not in seen.headers


async def test_names_in_no_proxy_and_this_machine_are_reached_without_it(model_server, environment):
    environment.setenv("HTTP_PROXY", model_server.origin)
    environment.setenv("NO_PROXY", "models.invalid")
    with pytest.raises(TransportFailed) as caught:
        await status_of("http://models.invalid/v1")
    assert caught.value.phase == "connect"
    model_server.add(status=204)
    assert await status_of(model_server.url) == 204
    (seen,) = model_server.requests
    assert seen.target == "/v1/x"


@pytest.mark.parametrize("url", ["http://[::1/x", "ftp://127.0.0.1/x", "/x"])
async def test_what_is_no_address_fails_before_anything_is_sent(environment, url):
    with trio.fail_after(10):
        async with open_http("http://127.0.0.1:9") as client:
            with pytest.raises(TransportFailed) as caught:
                async with client.post(HttpRequest(url, {}, b"", idle_s=5.0)):
                    pass
    assert caught.value.phase == "send"


async def test_a_header_that_would_begin_another_one_is_never_sent(model_server, environment):
    with trio.fail_after(10):
        async with open_http(model_server.url) as client:
            post = HttpRequest(f"{model_server.url}/x", {"a": "b\r\nx-other: c"}, b"", idle_s=5.0)
            with pytest.raises(TransportFailed) as caught:
                async with client.post(post):
                    pass
    assert caught.value.phase == "send"
    assert model_server.requests == []


async def test_a_proxy_of_another_kind_is_refused_in_words(environment):
    environment.setenv("ALL_PROXY", "socks5://me:secret@127.0.0.1:9")
    with pytest.raises(TransportFailed, match="http or https") as caught:
        await status_of("http://models.invalid/v1")
    assert "secret" not in str(caught.value)
