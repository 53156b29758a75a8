"""The program of an `http` hook: posts its standard input to one address, and prints the answer.

It runs in the sandbox of the hook, as a script of its own. A name that leads to a private address
is refused: only an address that the hook itself names may be one. Nothing is redirected.

Exit codes: 0: the answer is on standard output. 1: no usable answer; the reason is on stderr.
"""

import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
import sys
import urllib.request
from urllib.parse import urlsplit

MAX_ANSWER_BYTES = 1 << 20
_ORDINARY_6 = ipaddress.ip_network("2000::/3")  # all that is assigned to anybody
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)


class NoAnswer(Exception):
    """There is no usable answer; the text says why. `body`: what came beside an error."""

    def __init__(self, text: str, body: bytes = b"") -> None:
        super().__init__(text)
        self.body = body


def post(url: str, headers: dict[str, str], body: bytes, timeout_s: float) -> bytes:
    """The body of a 2xx answer. Raises NoAnswer, OSError, http.client.HTTPException."""
    parts = urlsplit(url)
    host, is_secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    proxy = urllib.request.getproxies().get(parts.scheme, "")
    if proxy and not urllib.request.proxy_bypass(host):
        connection = _through_proxy(proxy, host, port, is_secure=is_secure, timeout_s=timeout_s)
    else:
        connection = _CheckedConnection(host, port, is_secure=is_secure, timeout_s=timeout_s)
    is_plain_proxied = bool(proxy) and not is_secure and connection.host != host
    target = (
        url if is_plain_proxied else (parts.path or "/") + (f"?{parts.query}" * bool(parts.query))
    )
    shown_host = f"[{host}]" if ":" in host else host
    shown_host += f":{parts.port}" if parts.port else ""
    sent = {"Host": shown_host, "Content-Type": "application/json", **headers}
    try:
        connection.request("POST", target, body=body, headers=sent)
        answer = connection.getresponse()
        data = answer.read(MAX_ANSWER_BYTES + 1)
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        why = f"the address answered with status {answer.status}"
        raise NoAnswer(why, data[:MAX_ANSWER_BYTES])
    if len(data) > MAX_ANSWER_BYTES:
        raise NoAnswer("the answer is larger than 1 MiB")
    return data


class _CheckedConnection(http.client.HTTPConnection):
    """Connects to the address that was checked, and to no other."""

    def __init__(self, host: str, port: int, *, is_secure: bool, timeout_s: float) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._is_secure, self._limit_s = is_secure, timeout_s

    def connect(self) -> None:
        """Raises NoAnswer, OSError."""
        where = (_address(self.host, self.port), self.port)
        self.sock = socket.create_connection(where, self._limit_s)
        if self._is_secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)


def _through_proxy(
    proxy: str, host: str, port: int, *, is_secure: bool, timeout_s: float
) -> http.client.HTTPConnection:
    """The proxy decides which hosts may be reached."""
    parts = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    near, near_port = parts.hostname or "", parts.port or 80
    if not is_secure:
        return http.client.HTTPConnection(near, near_port, timeout=timeout_s)
    connection = http.client.HTTPSConnection(
        near, near_port, timeout=timeout_s, context=ssl.create_default_context()
    )
    connection.set_tunnel(host, port)
    return connection


def _address(host: str, port: int) -> str:
    """Where to connect. Raises NoAnswer: a name that leads to a private address, or nowhere."""
    found = [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not found:
        raise NoAnswer(f"{host} has no address")
    if host.lower() != "localhost" and found != [host]:
        private = [one for one in found if not _is_public(one)]
        if private:
            raise NoAnswer(
                f"{host} leads to the private address {private[0]}; name that one itself"
            )
    return found[0]


def _is_public(text: str) -> bool:
    """False too for IPv6 addresses that stand for IPv4 ones, but for a mapped public one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_global
    ordinary = address in _ORDINARY_6 and not address.sixtofour and not address.teredo
    is_isatap = (int(address) >> 32) & 0xFDFF_FFFF == 0x5EFE
    return address.is_global and ordinary and not is_isatap


def filled(value: str, variables: list[str]) -> str:
    """A header's value with the variables that the hook names; others are empty."""

    def one(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return os.environ.get(name, "") if name in variables else ""

    text = _VARIABLE.sub(one, value)
    if not text.isprintable():
        raise NoAnswer("a header cannot be sent: it holds control characters")
    return text


def main(config: str) -> int:
    """`config`: a JSON object with url, headers, variables and timeout_s."""
    given = json.loads(config)
    try:
        headers = {
            name: filled(text, given["variables"]) for name, text in given["headers"].items()
        }
        answer = post(given["url"], headers, sys.stdin.buffer.read(), given["timeout_s"])
    except (NoAnswer, OSError, http.client.HTTPException, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        if isinstance(error, NoAnswer):
            sys.stdout.buffer.write(error.body)  # a no in it counts
        return 1
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
