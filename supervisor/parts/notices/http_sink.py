"""Posts a notice to an address of the person's. No redirect is followed: the address is meant."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

LIMIT_S = 10.0


class NotPosted(Exception):
    """The server did not take it; the text says why and holds no secret."""


class Post(NamedTuple):
    """One request."""

    address: str
    body: bytes
    headers: Mapping[str, str]


async def post(request: Post, environment: Mapping[str, str]) -> None:
    """Raises NotPosted. `environment`: names the person's proxies."""
    import httpcore  # few runs tell anybody anything

    headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
    try:
        proxy = find_proxy(request.address, environment)
        made = httpcore.AsyncHTTPProxy(proxy) if proxy else httpcore.AsyncConnectionPool()
        async with (
            made as pool,
            pool.stream(
                "POST",
                request.address,
                headers=headers,
                content=request.body,
                extensions={
                    "timeout": dict.fromkeys(("connect", "read", "write", "pool"), LIMIT_S)
                },
            ) as response,
        ):
            status = response.status
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        raise NotPosted(f"{type(error).__name__}: the server was not reached") from error
    except (httpcore.UnsupportedProtocol, httpcore.ProxyError, ValueError, OSError) as error:
        raise NotPosted(f"{type(error).__name__}: nothing could be sent") from error
    if not 200 <= status < 300:
        raise NotPosted(f"the server answered {status}")


def find_proxy(address: str, environment: Mapping[str, str]) -> str:
    """The proxy for this address by the usual variables; "": none."""
    known = {name.lower(): value for name, value in environment.items() if value}
    parts = urlsplit(address)
    host = parts.hostname or ""
    for word in known.get("no_proxy", "").split(","):
        name = word.strip().lower().removeprefix("*").lstrip(".").partition(":")[0]
        if word.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return ""
    return known.get(f"{parts.scheme}_proxy") or known.get("all_proxy") or ""
