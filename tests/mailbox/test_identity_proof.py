"""A process proves who it is; nobody else's proof fits."""

import pytest

from swarm.mailbox.contents.credentials import is_proof, make_proof

KEY, PEER = b"k" * 32, b"scout.1"


def test_a_proof_fits_its_own_identity_purpose_and_run():
    proof = make_proof(KEY, PEER, purpose="supervisor")
    assert len(proof) == 32
    assert is_proof(proof, KEY, PEER, purpose="supervisor")


@pytest.mark.parametrize(
    ("key", "peer", "purpose"),
    [
        (b"other", PEER, "supervisor"),
        (KEY, b"scout.2", "supervisor"),
        (KEY, PEER, "gateway"),
        (KEY, b"", "supervisor\0scout.1"),
    ],
)
def test_it_fits_nothing_else(key, peer, purpose):
    assert not is_proof(make_proof(KEY, PEER, purpose="supervisor"), key, peer, purpose=purpose)


@pytest.mark.parametrize("claim", [b"", b"\0", b"x" * 32, b"x" * 1000])
def test_a_guess_is_no_proof(claim):
    assert not is_proof(claim, KEY, PEER, purpose="supervisor")
