"""The way to a provider through a proxy of the environment, and past it."""

import pytest
import trio

from swarm.worker.gateway.http import Post, TransportFailed, open_http

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


async def status_of(base_url):
    with trio.fail_after(10):
        async with open_http(base_url) as client:
            post = Post(f"{base_url}/x", {"x-api-key": "k"}, b"{}", idle_s=5.0)
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
