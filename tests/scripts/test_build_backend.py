"""The pages that a wheel names are those of the checkout's public origin, or none."""

import importlib.util
import sys
from pathlib import Path

import pytest

# setuptools takes the standard library's distutils where another import was under way before, and
# warns where some test of the same process has imported that one first.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The distutils package is deprecated"),
    pytest.mark.filterwarnings("ignore:Distutils was imported before Setuptools"),
]
SCRIPT = Path(__file__).parents[2] / "scripts" / "build_backend.py"


@pytest.fixture
def backend(monkeypatch):
    from setuptools.command.egg_info import manifest_maker
    from setuptools.dist import Distribution

    # The module replaces both for the build that imports it; here they are put back.
    monkeypatch.setattr(Distribution, "finalize_options", Distribution.finalize_options)
    monkeypatch.setattr(manifest_maker, "add_defaults", manifest_maker.add_defaults)
    spec = importlib.util.spec_from_file_location("build_backend", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "build_backend", module)
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
def test_a_public_origin_names_its_pages(backend, origin):
    urls = backend.project_urls(origin)
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
def test_no_other_origin_is_named(backend, origin):
    assert backend.project_urls(origin) == {}


def test_the_origin_is_read_from_gits_configuration_or_from_a_source_distribution(
    backend, tmp_path
):
    config = tmp_path / "config"
    assert backend.read_origin(config) == ""
    config.write_text('[core]\n\tbare\n[remote "origin"]\n\turl = https://example.org/a/b.git\n')
    assert backend.read_origin(config) == "https://example.org/a/b.git"
    config.write_bytes(b"\xff[[[")
    assert backend.read_origin(config) == ""
    info = tmp_path / "PKG-INFO"
    assert backend.urls_of_source(info) == {}
    info.write_text("Name: x\nProject-URL: Homepage, https://example.org/a/b\n\ntext\n")
    assert backend.urls_of_source(info) == {"Homepage": "https://example.org/a/b"}
