"""What the command line brings and no message can carry is left out or refused, in words."""

import os

import pytest
import trio

pytestmark = pytest.mark.live
LIMIT_S = 40
DONE = {"text": "done"}


async def test_a_variable_that_is_not_unicode_is_left_out_and_said(rig):
    rig.environment["ODD"] = os.fsdecode(b"a\xffb")
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(rig.script(DONE))).wait_end()
    assert (ended.code, ended.out) == (0, "done\n")
    assert "do not get these variables: ODD\n" in ended.err


async def test_a_folder_whose_name_is_not_unicode_is_refused(rig):
    rig.work = rig.folder / os.fsdecode(b"w\xff")
    rig.work.mkdir()
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(rig.script(DONE))).wait_end()
    assert ended.code == 2
    assert "the cwd of this run is not valid UTF-8" in ended.err
    assert not rig.has_run


@pytest.mark.parametrize("words", [("explain", "--", "ls"), ("run", "-p", "x", "--detach")])
async def test_in_such_a_folder_every_command_ends_in_words(rig, words):
    rig.work = rig.folder / os.fsdecode(b"w\xff")
    rig.work.mkdir()
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.start(*words)).wait_end()
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert "UTF-8" in ended.err


async def test_a_key_that_is_not_unicode_is_refused_and_not_shown(rig):
    rig.environment["OPENAI_API_KEY"] = os.fsdecode(b"sentinel-7f3a9c1e\xff")
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.start("run", "-p", "do it", "--plain")).wait_end()
    assert ended.code == 2
    assert "the keys of this run" in ended.err
    assert "sentinel" not in ended.err
    assert not rig.has_run
