"""Keys from files and commands: what is refused, when they are fetched again, what is told."""

import os
import sys
from pathlib import Path

import pytest
import trio

from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.spec import KeyCommand, ProviderSpec
from swarm.worker.gateway.provider_keys import (
    KeyUnavailable,
    ProviderKeys,
    read_key_file,
    run_key_command,
)

KEY = "sk-sentinel-0123456789abcdef"


def command(script, **settings):
    return KeyCommand(argv=(sys.executable, "-c", script), what="p.auth", **settings)


def provider(**settings):
    return ProviderSpec(id="p", name="P", env_key="p.key", **settings)


def key_file(folder, text=KEY, mode=0o600):
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


def told(call):
    with pytest.raises(KeyUnavailable) as caught:
        call()
    assert KEY not in str(caught.value)
    assert caught.value.exit_code == 5
    return str(caught.value)


async def failure(of):
    with pytest.raises(KeyUnavailable) as caught, trio.fail_after(10):
        await run_key_command(of)
    assert KEY not in str(caught.value)
    return str(caught.value)


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [KEY, f"{KEY}\n", f"  {KEY}\r\n\n"])
def test_a_file_gives_its_one_line(tmp_path, text):
    assert read_key_file(key_file(tmp_path, text)) == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666, 0o610])
def test_a_file_that_others_may_touch_is_refused_with_the_way_out(tmp_path, mode):
    text = told(lambda: read_key_file(key_file(tmp_path, mode=mode)))
    assert f"{mode:04o}" in text
    assert "chmod 600" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "only blanks"),
        (" \n\t\n", "only blanks"),
        (f"{KEY}\n{KEY}", "more than one line"),
        (f"{KEY}\x00", "characters"),
        ("schlüssel", "characters"),
        ("x" * 70_000, "bytes"),
    ],
)
def test_what_is_no_key_is_refused(tmp_path, text, words):
    assert words in told(lambda: read_key_file(key_file(tmp_path, text)))


def test_what_is_no_plain_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "plain file" in told(lambda: read_key_file(tmp_path / "pipe"))
    assert "plain file" in told(lambda: read_key_file(tmp_path))
    assert "No such file" in told(lambda: read_key_file(tmp_path / "missing"))


# --- commands ------------------------------------------------------------------------------------


async def test_a_command_gives_what_it_prints():
    assert await run_key_command(command(f"print('{KEY}')")) == KEY


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("pass", "only blanks"),
        (f"print('{KEY}'); print('more')", "more than one line"),
        (f"print('{KEY}'); raise SystemExit(3)", "exit code 3"),
        (f"print('{KEY}'); raise SystemExit('no {KEY} today')", "exit code 1: no [redacted] today"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("print('x' * 10_000_000)", "bytes"),
    ],
)
async def test_a_command_that_gives_no_key_says_why_and_not_what_it_printed(script, words):
    text = await failure(command(script))
    assert words in text
    assert text.startswith("p.auth: ")


async def test_a_command_that_cannot_be_started_names_what_is_missing(tmp_path):
    missing = KeyCommand(argv=("/nowhere/at/all",), what="p.auth")
    assert "there is no program /nowhere/at/all" in await failure(missing)
    away = str(tmp_path / "away")
    assert "away" in await failure(command("pass", cwd=away))


async def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(tmp_path):
    script = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open('{tmp_path}/pids', 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"print('{KEY}', flush=True)\n"
        "time.sleep(600)\n"
    )
    text = await failure(command(script, timeout_s=2.0))
    assert "2 s" in text
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        with trio.fail_after(30):
            while alive(pid):  # noqa: ASYNC110 (whose parent it was is gone: nobody tells us)
                await trio.sleep(0.01)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_a_command_gets_no_input_and_works_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    script = "import os, sys; print(os.getcwd() + ':' + repr(sys.stdin.read()))"
    assert await run_key_command(command(script)) == f"{tmp_path}:''"


# --- the book ------------------------------------------------------------------------------------


def counting(folder, *, refresh_s=300.0):
    """A command whose output counts its runs: sk-run-1-…, sk-run-2-…"""
    script = (
        f"import pathlib; p = pathlib.Path('{folder}/runs'); "
        "n = int(p.read_text()) + 1 if p.exists() else 1; p.write_text(str(n)); "
        f"(pathlib.Path('{folder}') / 'fail').exists() and exit('broken'); "
        "print(f'sk-run-{n}-abcdefgh')"
    )
    return provider(key_command=command(script, refresh_s=refresh_s))


class Book:
    def __init__(self):
        self.learned, self.warned = [], []

        async def learn(secret):
            self.learned.append(secret)

        self.keys = ProviderKeys({}, on_secret=learn, warn=self.warned.append)

    @property
    def key(self):
        return self.keys.values["p.key"]


async def test_a_key_is_fetched_once_for_all_who_ask_and_told_before_it_is_used(tmp_path):
    book, asked = Book(), counting(tmp_path)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(book.keys.ensure_key, asked)
    assert book.key == "sk-run-1-abcdefgh"
    assert book.learned == ["sk-run-1-abcdefgh"]
    assert (tmp_path / "runs").read_text() == "1"


async def test_a_due_key_is_fetched_again_and_an_old_one_survives_a_failure(tmp_path):
    book, asked = Book(), counting(tmp_path, refresh_s=0.001)
    await book.keys.ensure_key(asked)
    await trio.sleep(0.002)
    await book.keys.ensure_key(asked)
    assert book.key == "sk-run-2-abcdefgh"
    (tmp_path / "fail").touch()
    await trio.sleep(0.002)
    await book.keys.ensure_key(asked)
    assert book.key == "sk-run-2-abcdefgh"
    assert "broken" in book.warned[0]


async def test_without_any_key_a_failure_is_the_callers(tmp_path):
    (tmp_path / "fail").touch()
    with pytest.raises(KeyUnavailable, match="broken"):
        await Book().keys.ensure_key(counting(tmp_path))


async def test_a_refused_key_is_fetched_again_once_however_many_were_refused(tmp_path):
    book, asked = Book(), counting(tmp_path)
    await book.keys.ensure_key(asked)
    old = book.key
    renewed = []

    async def refused():
        renewed.append(await book.keys.refresh_key(asked, old))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(refused)
    assert renewed == [True] * 10
    assert book.key == "sk-run-2-abcdefgh"
    assert not await book.keys.refresh_key(asked, book.key)  # too soon after the last
    assert (tmp_path / "runs").read_text() == "2"


async def test_a_file_that_was_changed_is_read_again_when_its_key_is_refused(tmp_path):
    path = key_file(tmp_path, "sk-old-abcdefgh")
    book, asked = Book(), provider(key_file=str(path))
    await book.keys.ensure_key(asked)
    assert book.key == "sk-old-abcdefgh"
    key_file(tmp_path, "sk-new-abcdefgh")
    await book.keys.ensure_key(asked)
    assert book.key == "sk-old-abcdefgh"
    assert await book.keys.refresh_key(asked, "sk-old-abcdefgh")
    assert book.key == "sk-new-abcdefgh"


async def test_keys_of_variables_are_never_fetched():
    keys = ProviderKeys({"p.key": KEY})
    await keys.ensure_key(provider())
    assert not await keys.refresh_key(provider(), KEY)
    assert keys.values == {"p.key": KEY}


async def test_a_command_that_agents_could_exchange_is_not_started(tmp_path, monkeypatch):
    """A bare name first found in a folder of the project is named, and so is its folder."""
    planted = tmp_path / "project/.venv/bin/get-key"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho key\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted.parent}:/usr/bin:/bin")
    places = WritablePlaces(roots=(str(tmp_path / "project"),))
    said = await failure(KeyCommand(argv=("get-key",), what="p.auth", places=places))
    assert f"{planted} lies in {tmp_path}/project, where agents may write" in said
    assert not (tmp_path / "ran").exists()


async def test_a_held_command_finds_its_own_helpers_in_held_folders_alone(tmp_path, monkeypatch):
    planted = tmp_path / "project/bin/printf"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted.parent}:/usr/bin:/bin")
    places = WritablePlaces(roots=(str(tmp_path / "project"),))
    command = KeyCommand(argv=("/bin/sh", "-c", "env printf key"), what="p.auth", places=places)
    assert await run_key_command(command) == "key"
    assert not (tmp_path / "ran").exists()
