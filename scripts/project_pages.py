"""Finds the project's pages from where the checkout is from. No setuptools: any process may ask."""

import configparser
import re
from email import message_from_bytes
from pathlib import Path

_PUBLIC = re.compile(
    r"(?:https://|ssh://git@)(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24})/"
    r"(?P<path>[\w.-]+(?:/[\w.-]+)+)/?\Z"
)
_SHORT_SSH = re.compile(r"\Agit@([^/:]+):(?!\d+/)")  # no port


def project_urls(origin: str) -> dict[str, str]:
    """The pages of the repository at this address; none if it is not a public host's."""
    found = _PUBLIC.match(_SHORT_SSH.sub(r"ssh://git@\1/", origin))
    if found is None or found["host"].endswith((".local", ".internal", ".lan", ".test")):
        return {}
    page = f"https://{found['host']}/{found['path'].removesuffix('.git')}"
    return {
        "Homepage": page,
        "Documentation": f"{page}/tree/HEAD/docs",
        "Changes": f"{page}/tree/HEAD/docs/news",
        "Issues": f"{page}/issues",
    }


def read_origin(config: Path) -> str:
    """The address of `origin` in this git configuration; "" if there is none."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read(config, encoding="utf-8")
        return parser.get('remote "origin"', "url", fallback="") or ""
    except (configparser.Error, OSError, UnicodeDecodeError):
        return ""


def urls_of_source(info: Path) -> dict[str, str]:
    """The pages that the metadata of a source distribution names: it holds no git folder."""
    if not info.is_file():
        return {}
    headers = message_from_bytes(info.read_bytes()).get_all("Project-URL", [])
    pairs = (line.partition(", ") for line in headers)
    return {name: url for name, sign, url in pairs if sign}
