"""Builds with setuptools, and names the project's pages in the metadata: those of its git `origin`.

No address is written down here, so a fork's wheel names the fork. Without an `origin` that anybody
can open with https there are none.
"""

import configparser
import re
from email import message_from_bytes
from pathlib import Path

from setuptools import build_meta
from setuptools.command.egg_info import manifest_maker
from setuptools.dist import Distribution

_PUBLIC = re.compile(
    r"(?:https://|ssh://git@)(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24})/"
    r"(?P<path>[\w.-]+(?:/[\w.-]+)+)/?\Z"
)
_SHORT_SSH = re.compile(r"\Agit@([^/:]+):(?!\d+/)")  # no port
_finalize_options = Distribution.finalize_options
_add_defaults = manifest_maker.add_defaults

build_sdist = build_meta.build_sdist
build_wheel = build_meta.build_wheel
build_editable = build_meta.build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


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


def _add_urls(distribution: Distribution) -> None:
    _finalize_options(distribution)
    found = project_urls(read_origin(Path(".git/config")))
    distribution.metadata.project_urls = found or urls_of_source(Path("PKG-INFO"))


def _add_this_file(maker: manifest_maker) -> None:
    _add_defaults(maker)
    maker.filelist.append("scripts/build_backend.py")  # a source distribution is built with it


Distribution.finalize_options = _add_urls
manifest_maker.add_defaults = _add_this_file
