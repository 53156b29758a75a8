"""Credentials under the run's key: proofs of identity, and sealed network tickets. Pure.

All are HMACs, so none is stored. A ticket says what an agent may reach; with a single changed bit
it does not open. A proxy restarted after a crash knows as much as the first.
"""

import hashlib
import hmac

import msgspec

from ..protocol.proxy import NetworkTicket


def make_proof(run_key: bytes, identity: bytes, *, purpose: str) -> bytes:
    """The 32-byte secret of `identity` for `purpose` ("supervisor" or "gateway")."""
    return hmac.digest(run_key, purpose.encode() + b"\0" + identity, hashlib.sha256)


def is_proof(claim: bytes, run_key: bytes, identity: bytes, *, purpose: str) -> bool:
    """True if `claim` is the right secret; compared in constant time."""
    return hmac.compare_digest(claim, make_proof(run_key, identity, purpose=purpose))


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
