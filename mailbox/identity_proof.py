"""Secrets that prove a process's identity: HMACs under the run's key, so none is stored."""

import hashlib
import hmac


def make_proof(run_key: bytes, identity: bytes, *, purpose: str) -> bytes:
    """The 32-byte secret of `identity` for `purpose` ("supervisor" or "gateway")."""
    return hmac.digest(run_key, purpose.encode() + b"\0" + identity, hashlib.sha256)


def is_proof(claim: bytes, run_key: bytes, identity: bytes, *, purpose: str) -> bool:
    """True if `claim` is the right secret; compared in constant time."""
    return hmac.compare_digest(claim, make_proof(run_key, identity, purpose=purpose))
