"""Ids and versions of plugins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.plugins.files.plugin_id import (
    PluginId,
    check_version,
    parse_plugin_id,
    version_key,
)

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


@given(NAMES, NAMES)
def test_an_id_is_read_back_as_it_was_written(plugin, marketplace):
    wanted = PluginId(plugin=plugin, marketplace=marketplace)
    assert parse_plugin_id(str(wanted)) == wanted


@pytest.mark.parametrize(
    "text", ["", "demo", "@", "demo@", "@team", "a@b@c", "../x@team", "demo@te/am", "a b@c", "é@x"]
)
def test_what_is_no_id_is_refused_by_name(text):
    with pytest.raises(UsageError):
        parse_plugin_id(text)


@given(st.text(max_size=200))
def test_no_text_becomes_an_id_that_leads_out_of_the_store(text):
    try:
        found = parse_plugin_id(text)
    except UsageError:
        return
    assert not set("/\\.\0") & set(str(found))


@pytest.mark.parametrize("text", ["", ".", "..", "1/2", "1.0 ", "a" * 65, "1.0\n"])
def test_a_version_that_is_no_folders_name_is_refused(text):
    with pytest.raises(UsageError):
        check_version(text)


def test_versions_are_ordered_by_meaning_and_local_is_the_last():
    wanted = ["next", "0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.2"]
    wanted += ["1.0.0-rc.10", "1.0.0", "v1.2", "1.10.0", "2.0.0+build", "local"]
    shuffled = wanted[6:] + wanted[:6]
    assert sorted(shuffled, key=version_key) == wanted


@given(st.lists(st.text(max_size=20), max_size=8))
def test_any_texts_have_an_order(texts):
    assert len(sorted(texts, key=version_key)) == len(texts)
