"""Tickets: what an agent may reach, written by the supervisor and sealed under the proxy's key.

Guards: a ticket that was changed by a single bit opens to nothing. The proxy keeps no list of
agents, so a new one after a crash knows as much as the first.
"""

import hashlib
import hmac

import msgspec

from .protocol.proxy import NetworkTicket

_SEAL_BYTES = 32
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NetworkTicket).decode


def ticket_key(run_key: bytes) -> bytes:
    """The key of one run's tickets; nothing else of the run can be made with it."""
    return hmac.digest(run_key, b"network tickets", hashlib.sha256)


def seal_ticket(ticket: NetworkTicket, key: bytes) -> bytes:
    """The ticket as an agent carries it."""
    body = _encode(ticket)
    return hmac.digest(key, body, hashlib.sha256) + body


def open_ticket(sealed: bytes, key: bytes) -> NetworkTicket | None:
    """What it says; None if it was not sealed under this key."""
    seal, body = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, hmac.digest(key, body, hashlib.sha256)):
        return None
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
