"""The pages that a wheel names are those of the checkout's public origin, or none."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "project_pages.py"


@pytest.fixture
def pages():
    spec = importlib.util.spec_from_file_location("project_pages", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "origin",
    [
        "https://example.org/acme/swarm",
        "https://example.org/acme/swarm.git",
        "https://example.org/acme/swarm/",
        "git@example.org:acme/swarm.git",
        "ssh://git@example.org/acme/swarm",
    ],
)
def test_a_public_origin_names_its_pages(pages, origin):
    urls = pages.project_urls(origin)
    assert urls["Homepage"] == "https://example.org/acme/swarm"
    assert urls["Issues"] == "https://example.org/acme/swarm/issues"


@pytest.mark.parametrize(
    "origin",
    [
        "", "/srv/swarm", "file:///srv/swarm", "http://example.org/acme/swarm",
        "https://name:secret@example.org/acme/swarm", "https://localhost/acme/swarm",
        "https://10.0.0.1/acme/swarm", "https://git.corp.internal/acme/swarm",
        "https://example.org:8443/acme/swarm", "git@host:acme/swarm",
    ],
)  # fmt: skip
def test_no_other_origin_is_named(pages, origin):
    assert pages.project_urls(origin) == {}


def test_the_origin_is_read_from_gits_configuration_or_from_a_source_distribution(pages, tmp_path):
    config = tmp_path / "config"
    assert pages.read_origin(config) == ""
    config.write_text('[core]\n\tbare\n[remote "origin"]\n\turl = https://example.org/a/b.git\n')
    assert pages.read_origin(config) == "https://example.org/a/b.git"
    config.write_bytes(b"\xff[[[")
    assert pages.read_origin(config) == ""
    info = tmp_path / "PKG-INFO"
    assert pages.urls_of_source(info) == {}
    info.write_text("Name: x\nProject-URL: Homepage, https://example.org/a/b\n\ntext\n")
    assert pages.urls_of_source(info) == {"Homepage": "https://example.org/a/b"}
