"""The route to a server: its address in bytes, its proxy, its certificates.

Proxies (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY) and certificates (SSL_CERT_FILE,
SSL_CERT_DIR) come from the environment; a server on this machine never has a proxy.
"""

import base64
import os
import ssl
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes, urlsplit

import idna
from httpcore import URL

from swarm.mailbox.base.proxy_environment import proxy_variables

_PORTS = {"http": 80, "https": 443}
_KEPT = "%/?:@!$&'()*+,;=~[]"  # not percent-encoded in a path or a query


class HttpAddress(NamedTuple):
    """Where a request goes, and the headers that follow from the URL."""

    url: URL
    headers: tuple[tuple[bytes, bytes], ...]


@lru_cache(maxsize=32)
def address_of(url: str) -> HttpAddress:
    """Raises ValueError if the URL is not an absolute http or https URL."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("no address that begins with http:// or https:// and names a host")
    host = _ascii_host(parts.hostname)
    target = quote(parts.path or "/", safe=_KEPT) + _query(parts.query)
    shown = f"[{host}]" if ":" in host else host
    if parts.port not in (None, _PORTS[parts.scheme]):
        shown = f"{shown}:{parts.port}"
    headers = [(b"host", shown.encode())]
    if parts.username is not None:
        login = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
        headers.append((b"authorization", b"Basic " + base64.b64encode(login)))
    return HttpAddress(
        URL(scheme=parts.scheme, host=host, port=parts.port, target=target), tuple(headers)
    )


def _ascii_host(host: str) -> str:
    return host if host.isascii() else idna.encode(host, uts46=True).decode()


def _query(query: str) -> str:
    return f"?{quote(query, safe=_KEPT)}" if query else ""


class HttpProxy(NamedTuple):
    """A proxy; `login` is its user name and password, if it needs one."""

    url: URL
    login: tuple[bytes, bytes] | None


def is_this_machine(host: str) -> bool:
    """True for the names and addresses of this machine alone; a proxy would take them for its own.

    `0.0.0.0` and `::` are what people copy from a server's log: a connection to them stays here.
    """
    if host == "localhost" or host.rstrip(".").endswith(".localhost"):
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    seen = mapped or address
    return seen.is_loopback or seen.is_unspecified


def find_proxy(base_url: str) -> HttpProxy | None:
    """The proxy that the environment names for this server; None: there is none.

    Raises ValueError for an invalid address, and for a proxy that uses neither HTTP nor HTTPS.
    """
    parts = urlsplit(base_url)
    if is_this_machine(parts.hostname or "") or not proxy_variables(os.environ):
        return None
    from urllib.request import getproxies_environment, proxy_bypass  # 5 ms

    proxies: dict[str, str] = getproxies_environment()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named or proxy_bypass(parts.netloc.rpartition("@")[2], proxies):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if proxy.scheme not in _PORTS or not proxy.hostname:
        raise ValueError("the proxy that the environment names has no address of http or https")
    url = URL(scheme=proxy.scheme, host=_ascii_host(proxy.hostname), port=proxy.port, target="/")
    if proxy.username is None:
        return HttpProxy(url, None)
    login = unquote_to_bytes(proxy.username), unquote_to_bytes(proxy.password or "")
    return HttpProxy(url, login)


def certificates() -> ssl.SSLContext:
    """The public certificates, or those that SSL_CERT_FILE or SSL_CERT_DIR name.

    Raises ValueError if they cannot be read.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        import certifi

        file = certifi.where()
    try:
        return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    except OSError as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"the certificates of {file or folder} cannot be read: {why}") from error
