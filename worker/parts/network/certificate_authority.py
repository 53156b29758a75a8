"""The network proxy's own certificate authority, for tunnels that it inspects.

The key is created once per state folder, is readable only by its owner, and is hidden from every
command of every run. A folder or key that others could have changed is refused. Issued certificates
are kept in memory only; each is valid for one host and one week.
"""

import datetime as dt
import fcntl
import os
import ssl
import stat
from collections import OrderedDict
from ipaddress import ip_address
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.private_files import make_own_folders
from swarm.roles.config.atomic_replace import replace_file

KEY_NAME, BUNDLE_NAME = "ca.key", "bundle.pem"
_OWN_LIFE, _LEAF_LIFE = dt.timedelta(days=3650), dt.timedelta(days=7)
_RENEW_BEFORE, _CLOCKS = dt.timedelta(days=30), dt.timedelta(days=1)
_MOST_LEAVES = 512
_MOST_NAME = 64  # characters of a common name; clients check the alternative name
_SYSTEM_ROOTS = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
)  # fmt: skip


class NoCertificateAuthority(SwarmError):
    """No trustworthy authority is available, so the proxy inspects no tunnels."""


class CertificateAuthority:
    """Made by `open_certificate_authority`."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key, self._certificate = key, certificate
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())  # of all leaves; never written
        self._issued = OrderedDict[str, tuple[dt.datetime, ssl.SSLContext]]()

    def context_for(self, host: str) -> ssl.SSLContext:
        """The server-side TLS context for this host; `host` is in normal form."""
        now = dt.datetime.now(dt.UTC)
        known = self._issued.get(host)
        if known is not None and now < known[0]:
            self._issued.move_to_end(host)
            return known[1]
        leaf = self._leaf(host, now)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        _load(context, _pem(self._leaf_key) + leaf.public_bytes(Encoding.PEM))
        self._issued[host] = now + _LEAF_LIFE / 2, context
        while len(self._issued) > _MOST_LEAVES:
            self._issued.popitem(last=False)
        return context

    def _leaf(self, host: str, now: dt.datetime) -> x509.Certificate:
        name: x509.GeneralName
        try:
            name = x509.IPAddress(ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        builder = _begun(host, self._certificate.subject, self._leaf_key, now, _LEAF_LIFE)
        return (
            builder.add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )


def open_certificate_authority(folder: Path) -> CertificateAuthority:
    """Open the folder's authority; create it if it is missing or expires soon. Also writes the
    bundle that commands trust: the public certificates and its own.

    Raises NoCertificateAuthority, with the path.
    """
    try:
        make_own_folders(folder)
        _check_owner(folder, 0o022)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be creating it
            key, certificate = _read(folder / KEY_NAME) or _make(folder / KEY_NAME)
            own = certificate.public_bytes(Encoding.PEM)
            bundle = find_roots().read_bytes().rstrip() + b"\n" + own
            replace_file(folder / BUNDLE_NAME, bundle, mode=0o644)
        finally:
            os.close(lock)
    except OSError as error:
        raise NoCertificateAuthority(f"{error.filename or folder}: {error.strerror}") from error
    return CertificateAuthority(key, certificate)


def find_roots() -> Path:
    """The certificates that this machine trusts: SSL_CERT_FILE, the system's, else certifi's."""
    wanted = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    for name in (wanted, *_SYSTEM_ROOTS):
        if name and Path(name).is_file():
            return Path(name)
    return Path(certifi.where())


def verifying_context() -> ssl.SSLContext:
    """The TLS context for connections to servers: names and certificates are checked as usual."""
    context = ssl.create_default_context(cafile=str(find_roots()))
    context.set_alpn_protocols(["http/1.1"])
    return context


def _read(path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None:
    """The stored key and certificate; None if there is none, or if it expires soon."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        _check_owner(path, 0o077, os.fstat(fd))
        data = file.read(64 * 1024)
    try:
        key, certificate = load_pem_private_key(data, None), x509.load_pem_x509_certificate(data)
    except ValueError as error:
        raise NoCertificateAuthority(
            f"{path} cannot be read; remove it, and it is made again"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or (
        key.public_key() != certificate.public_key()
    ):
        raise NoCertificateAuthority(f"{path}: key and certificate do not fit; remove it")
    if certificate.not_valid_after_utc - dt.datetime.now(dt.UTC) < _RENEW_BEFORE:
        return None
    return key, certificate


def _make(path: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "swarm network proxy")])
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _begun("swarm network proxy", subject, key, now, _OWN_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    replace_file(path, _pem(key) + certificate.public_bytes(Encoding.PEM))
    return key, certificate


def _begun(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: dt.datetime,
    lifetime: dt.timedelta,
) -> x509.CertificateBuilder:  # fmt: skip
    common = x509.NameAttribute(NameOID.COMMON_NAME, name[:_MOST_NAME])
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([common]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS)
        .not_valid_after(now + lifetime)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Load the certificate through a memory file, because `ssl` reads only files."""
    fd = os.memfd_create("swarm-leaf", os.MFD_CLOEXEC)
    try:
        os.write(fd, pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def _check_owner(path: Path, forbidden: int, facts: os.stat_result | None = None) -> None:
    facts = facts or path.lstat()
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & forbidden:
        raise NoCertificateAuthority(
            f"{path} could be touched by others; remove it, and it is made again"
        )
