"""Marketplace files of both products, and which addresses are fetched at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.plugins.files.marketplace_file import (
    MarketplaceEntry,
    PluginSource,
    check_ref,
    git_url,
    read_marketplace,
)

PATH = ".agents/plugins/marketplace.json"


def read(*plugins, **more):
    data = json.dumps({"name": "team", "plugins": plugins, **more}).encode()
    return read_marketplace(data, path=PATH)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("./plugins/demo", PluginSource(path="plugins/demo")),
        ("./", PluginSource()),
        ({"source": "local", "path": "./plugins/demo"}, PluginSource(path="plugins/demo")),
        (
            {"source": "url", "url": "https://example.org/x.git", "ref": "v1"},
            PluginSource(url="https://example.org/x.git", ref="v1"),
        ),
        (
            {"source": "github", "repo": "acme/x"},
            PluginSource(url="https://github.com/acme/x.git"),
        ),
        (
            {"source": "git-subdir", "url": "acme/x", "path": "a/b", "sha": "a" * 40},
            PluginSource(url="https://github.com/acme/x.git", path="a/b", sha="a" * 40),
        ),
    ],
)
def test_sources_of_both_products_are_read(source, wanted):
    found = read({"name": "demo", "source": source})
    assert found.entries == (MarketplaceEntry(name="demo", source=wanted),)
    assert found.warnings == ()


def test_claudes_plugin_root_stands_before_plain_names():
    found = read({"name": "demo", "source": "demo"}, metadata={"pluginRoot": "./plugins"})
    assert found.entries[0].source == PluginSource(path="plugins/demo")


@pytest.mark.parametrize(
    "source",
    [
        "../x", "/etc", "./a/../../b", {"source": "npm", "package": "x"}, 7, None,
        {"source": "url", "url": "ext::sh -c id"}, {"source": "url", "url": "file:///etc"},
        {"source": "github", "repo": "--upload-pack=id/x"},
        {"source": "url", "url": "acme/x", "ref": "--exec=id"},
        {"source": "url", "url": "acme/x", "sha": "main"},
    ],
)  # fmt: skip
def test_an_entry_with_another_source_is_left_out_and_the_rest_stands(source):
    found = read({"name": "bad", "source": source}, {"name": "good", "source": "./good"})
    assert [one.name for one in found.entries] == ["good"]
    assert "plugins[0]" in found.warnings[0]


def test_the_first_of_two_entries_keeps_the_name():
    found = read({"name": "a", "source": "./one"}, {"name": "a", "source": "./two"})
    assert [one.source.path for one in found.entries] == ["one"]
    assert "taken" in found.warnings[0]


@pytest.mark.parametrize(
    ("policy", "available"),
    [
        ({}, True),
        ({"installation": "INSTALLED_BY_DEFAULT"}, True),
        ({"installation": "NOT_AVAILABLE"}, False),
        ({"products": []}, False),
    ],
)
def test_an_entry_says_whether_it_is_offered(policy, available):
    assert read({"name": "a", "source": "./a", "policy": policy}).entries[0].available is available


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "ext::sh", "file:///x", "git://x/y", "http://example.org/x", "https://", "-x/y",
        "https://u:p@example.org/x", "https://exa mple.org/x", "ssh://-oProxyCommand=id/x",
        "fd::3", "https::x/y", "user@-host:x",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(text):
    with pytest.raises(UsageError):
        git_url(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("acme/x", "https://github.com/acme/x.git"),
        ("https://github.com/acme/x", "https://github.com/acme/x.git"),
        ("https://example.org/x", "https://example.org/x"),
        ("git@example.org:acme/x.git", "git@example.org:acme/x.git"),
        ("ssh://git@example.org/x", "ssh://git@example.org/x"),
        ("http://127.0.0.1:80/x", "http://127.0.0.1:80/x"),
    ],
)
def test_these_addresses_are_fetched(text, wanted):
    assert git_url(text) == wanted


@given(st.text(max_size=60))
def test_no_address_or_reference_is_an_option_of_git(text):
    for check in (git_url, check_ref):
        try:
            found = check(text)
        except UsageError:
            continue
        assert not found.startswith("-")
        assert "::" not in found.split("/")[0]


@pytest.mark.parametrize("name", ["../x", "", "a b", None, "x" * 65])
def test_a_marketplace_without_a_plain_name_is_refused(name):
    with pytest.raises(UsageError, match=r"marketplace\.json"):
        read_marketplace(json.dumps({"name": name}).encode(), path=PATH)
