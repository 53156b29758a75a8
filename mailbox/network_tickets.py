"""Network tickets: what an agent may reach, written by the supervisor, sealed with an HMAC. Pure.

A ticket with a single changed bit does not open. The proxy stores no list of agents, so a proxy
restarted after a crash knows as much as the first.
"""

import hashlib
import hmac

import msgspec

from .protocol.proxy import NetworkTicket

_SEAL_BYTES = 32
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NetworkTicket).decode


def ticket_key(run_key: bytes) -> bytes:
    """The key for one run's tickets; it serves no other purpose."""
    return hmac.digest(run_key, b"network tickets", hashlib.sha256)


def seal_ticket(ticket: NetworkTicket, key: bytes) -> bytes:
    """The sealed ticket, as an agent carries it."""
    body = _encode(ticket)
    return hmac.digest(key, body, hashlib.sha256) + body


def open_ticket(sealed: bytes, key: bytes) -> NetworkTicket | None:
    """The ticket; None if it was not sealed with this key."""
    seal, body = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, hmac.digest(key, body, hashlib.sha256)):
        return None
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
