"""Addresses to which what grants access may be sent. Pure."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_private_address(address: str) -> bool:
    """True if nobody on the way reads what goes there: https, or this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not address.isprintable():
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """True for this machine's names and addresses."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
