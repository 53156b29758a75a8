"""The proxy's own authority: made once, closed to others, and good for one host at a time."""

import datetime as dt
import ssl
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from swarm.worker.parts.network import certificate_authority
from swarm.worker.parts.network.certificate_authority import (
    NoCertificateAuthority,
    find_roots,
    open_certificate_authority,
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state" / "proxy"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def handshake(made, host, *, trusted, wanted=None):
    """A real handshake in memory; returns the names that the client was shown."""
    client = ssl.create_default_context(cafile=str(trusted))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=wanted or host)
    theirs = made.context_for(host).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(6):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours.getpeercert()["subjectAltName"]


def test_it_is_made_once_and_its_key_is_for_the_owner_alone(folder):
    open_certificate_authority(folder)
    key = (folder / "ca.key").read_bytes()
    assert (mode(folder), mode(folder / "ca.key")) == (0o700, 0o600)
    bundle = (folder / "bundle.pem").read_bytes()
    assert b"PRIVATE KEY" not in bundle
    assert bundle.startswith(find_roots().read_bytes().rstrip())
    open_certificate_authority(folder)
    assert (folder / "ca.key").read_bytes() == key
    assert sorted(path.name for path in folder.iterdir()) == ["bundle.pem", "ca.key"]


@pytest.mark.parametrize("host", ["a.example.org", "xn--bcher-kva.example", "10.0.0.7", "2606::1"])
def test_who_trusts_the_bundle_trusts_the_host_that_was_asked_for_and_no_other(folder, host):
    made, bundle = open_certificate_authority(folder), folder / "bundle.pem"
    ((_, name),) = handshake(made, host, trusted=bundle)
    assert name.lower().startswith(host[:4])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made, host, trusted=bundle, wanted="other.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made, host, trusted=find_roots())


def test_a_name_longer_than_a_common_name_may_be_is_issued_too(folder):
    host = ".".join(["a" * 60] * 4)
    assert handshake(open_certificate_authority(folder), host, trusted=folder / "bundle.pem")


def test_what_is_issued_is_kept_and_bounded(folder, monkeypatch):
    made = open_certificate_authority(folder)
    monkeypatch.setattr(certificate_authority, "_MOST_LEAVES", 2)
    first = made.context_for("a.test")
    assert made.context_for("a.test") is first
    made.context_for("b.test")
    made.context_for("c.test")
    assert made.context_for("a.test") is not first


@pytest.mark.parametrize("spoil", ["mode", "words", "other key", "link"])
def test_a_key_that_others_could_have_touched_or_that_is_none_is_refused(folder, spoil):
    open_certificate_authority(folder)
    key = folder / "ca.key"
    match spoil:
        case "mode":
            key.chmod(0o640)
        case "words":
            key.write_text("nothing")
        case "other key":
            open_certificate_authority(folder.parent / "other")
            mine = key.read_bytes().partition(b"-----BEGIN CERTIFICATE")
            others = (folder.parent / "other/ca.key").read_bytes()
            key.write_bytes(others.partition(b"-----BEGIN CERTIFICATE")[0] + mine[1] + mine[2])
        case "link":
            key.rename(folder / "elsewhere")
            key.symlink_to("elsewhere")
    with pytest.raises(NoCertificateAuthority, match=r"ca\.key"):
        open_certificate_authority(folder)


def test_a_folder_that_others_may_write_to_is_refused(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(NoCertificateAuthority, match="could be touched by others"):
        open_certificate_authority(folder)


def test_one_that_ends_soon_is_made_again(folder, monkeypatch):
    monkeypatch.setattr(certificate_authority, "_OWN_LIFE", dt.timedelta(days=29))
    open_certificate_authority(folder)
    old = (folder / "ca.key").read_bytes()
    monkeypatch.undo()
    open_certificate_authority(folder)
    new = (folder / "ca.key").read_bytes()
    assert new != old
    left = x509.load_pem_x509_certificate(new).not_valid_after_utc - dt.datetime.now(dt.UTC)
    assert left > dt.timedelta(days=3000)
    assert x509.load_pem_x509_certificate(new).fingerprint(hashes.SHA256())
