"""Marketplaces: folder, archive, git repository; updates, hostile ones, one that is down."""

import io
import json
import os
import shutil
import subprocess
import tarfile
import threading
from contextlib import contextmanager
from http.server import CGIHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]
LIMIT_S = 60


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    path.chmod(mode)


def write_market(folder, *, version="1.0.0", text="First."):
    write(folder / ".claude-plugin" / "marketplace.json", {
        "name": "team", "plugins": [{"name": "demo", "source": "./plugins/demo"}],
    })  # fmt: skip
    plugin = folder / "plugins" / "demo"
    write(plugin / ".claude-plugin" / "plugin.json", {"name": "demo", "version": version})
    skill = f"---\nname: notes\ndescription: {text}\n---\nDo it.\n"
    write(plugin / "skills" / "notes" / "SKILL.md", skill)


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    argv = ["git", *identity, "-C", str(folder), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder):
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a change")
    return git(folder, "rev-parse", "HEAD")


@contextmanager
def git_server(top, monkeypatch):
    """git's own server over HTTP on loopback; gives the address."""
    backend = Path(git(top, "--exec-path")) / "git-http-backend"
    script = top / "cgi-bin" / "git"
    write(script, f'#!/bin/sh\nexec "{backend}"\n', 0o755)
    monkeypatch.setenv("GIT_PROJECT_ROOT", str(top))
    monkeypatch.setenv("GIT_HTTP_EXPORT_ALL", "1")

    # else the server gives the rights of its user away
    monkeypatch.setattr("http.server.nobody_uid", os.getuid)

    class Handler(CGIHTTPRequestHandler):
        def log_message(self, *_words):
            """Say nothing."""

    def handler(*given):
        return Handler(*given, directory=str(top))

    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/cgi-bin/git"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def swarm(rig, *words):
    return await (await rig.start(*words)).wait_end()


async def test_a_plugin_of_a_folder_is_installed_and_updated_after_its_difference_was_shown(rig):
    write_market(rig.folder / "market")
    with trio.fail_after(LIMIT_S):
        added = await swarm(rig, "plugin", "marketplace", "add", str(rig.folder / "market"))
        assert added.code == 0, added.err
        offered = await swarm(rig, "plugin", "list", "--available", "--marketplace", "team")
        assert offered.out.split()[0] == "demo@team"
        assert "available" in offered.out
        assert (await swarm(rig, "plugin", "add", "demo", "--yes")).code == 0
        listed = await swarm(rig, "plugin", "list", "--available")
        assert "available" not in listed.out
        assert "demo@team" in listed.out
        assert "demo" not in (await swarm(rig, "plugin", "list", "--marketplace", "other")).out
        assert "up to date" in (await swarm(rig, "plugin", "update")).out
        write_market(rig.folder / "market", version="1.10.0", text="Second.")
        asked = await swarm(rig, "plugin", "update", "demo")
        assert asked.code == 2
        assert "~ skills/notes/SKILL.md" in asked.out
        assert "First." in (await swarm(rig, "skills", "list")).out
        updated = await swarm(rig, "plugin", "update", "demo", "--yes")
        assert updated.code == 0, updated.err
        assert "Second." in (await swarm(rig, "skills", "list")).out
        write_market(rig.folder / "market", version="1.9.0")
        older = await swarm(rig, "plugin", "update", "demo")
    assert "OLDER than what is installed: 1.10.0" in older.out
    versions = rig.home / "plugins" / "cache" / "team" / "demo"
    assert sorted(one.name for one in versions.iterdir()) == ["1.0.0", "1.10.0"]


async def test_a_git_marketplace_is_fetched_once_and_again_only_when_asked(rig, monkeypatch):
    repository = rig.folder / "served" / "team"
    write_market(repository)
    first = commit(repository)
    with git_server(rig.folder / "served", monkeypatch) as address:
        with trio.fail_after(LIMIT_S):
            added = await swarm(rig, "plugin", "marketplace", "add", f"{address}/team/.git#main")
            assert added.code == 0, added.err
            assert (await swarm(rig, "plugin", "add", "demo@team", "--yes")).code == 0
            lock = json.loads((rig.home / "plugins" / "lock.json").read_text())
            assert lock["plugins"]["demo@team"]["revision"] == first
            write_market(repository, version="2.0.0", text="Second.")
            second = commit(repository)
            assert "up to date" in (await swarm(rig, "plugin", "update")).out
            again = await swarm(rig, "plugin", "marketplace", "update")
            assert again.code == 0, again.err
            assert (await swarm(rig, "plugin", "update", "--yes")).code == 0
    lock = json.loads((rig.home / "plugins" / "lock.json").read_text())
    assert lock["plugins"]["demo@team"]["revision"] == second
    with trio.fail_after(LIMIT_S):  # the server is down now
        listed = await swarm(rig, "plugin", "marketplace", "list", "--plugins")
        assert "demo@team" in listed.out
        failed = await swarm(rig, "plugin", "marketplace", "update", "team")
        assert failed.code != 0
        assert "could not fetch it" in failed.err
        assert "Second." in (await swarm(rig, "skills", "list")).out


async def test_of_a_large_repository_only_the_named_paths_are_read(rig, monkeypatch):
    repository = rig.folder / "served" / "mono"
    write_market(repository)
    for number in range(4_100):  # more files than a marketplace may have
        write(repository / "other" / str(number), "")
    commit(repository)
    with git_server(rig.folder / "served", monkeypatch) as address, trio.fail_after(LIMIT_S):
        source = f"{address}/mono/.git"
        whole = await swarm(rig, "plugin", "marketplace", "add", source)
        assert whole.code == 2
        assert "4,000 files" in whole.err
        outside = await swarm(rig, "plugin", "marketplace", "add", source, "--sparse", "../x")
        assert "not a path of a repository" in outside.err
        nothing = await swarm(rig, "plugin", "marketplace", "add", source, "--sparse", "absent")
        assert nothing.code == 0, nothing.err
        assert (await swarm(rig, "plugin", "marketplace", "remove", "team")).code == 0
        words = ("plugin", "marketplace", "add", source, "--sparse", "plugins/", "--sparse", "no")
        added = await swarm(rig, *words)
        assert added.code == 0, added.err
        assert 'sparse_paths = ["plugins", "no"]' in (rig.home / "config.toml").read_text()
        assert (await swarm(rig, "plugin", "marketplace", "update", "team")).code == 0
        assert (await swarm(rig, "plugin", "add", "demo@team", "--yes")).code == 0
    copy = rig.home / "plugins" / "marketplaces" / "team"
    assert (copy / "plugins").is_dir()
    assert not (copy / "other").exists()


async def test_a_hostile_repository_runs_nothing_when_it_is_fetched(rig, monkeypatch):
    repository = rig.folder / "served" / "evil"
    mark = rig.folder / "ran"
    write_market(repository)
    commit(repository)
    write(repository / ".gitattributes", "* filter=evil diff=evil\n")
    write(repository / ".gitmodules", f'[submodule "x"]\n\tpath = x\n\turl = ext::touch {mark}\n')
    write(repository / ".git" / "hooks" / "post-checkout", f"#!/bin/sh\ntouch {mark}\n", 0o755)
    (repository / "plugins" / "demo" / "out").symlink_to("inside")
    git(repository, "config", "filter.evil.smudge", f"touch {mark}")
    commit(repository)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(repository / ".git"))
    with git_server(rig.folder / "served", monkeypatch) as address, trio.fail_after(LIMIT_S):
        added = await swarm(rig, "plugin", "marketplace", "add", f"{address}/evil/.git")
        assert added.code == 0, added.err
        assert (await swarm(rig, "plugin", "add", "demo", "--yes")).code == 0
        (repository / "up").symlink_to("../../../etc")
        commit(repository)
        refused = await swarm(rig, "plugin", "marketplace", "update", "team")
        assert refused.code != 0
        assert "leads out" in refused.err
    assert not mark.exists()
    assert not list((rig.home / "plugins").glob("staging/*"))


@pytest.mark.parametrize(
    "address", ["ext::sh -c id", "file:///etc", "--upload-pack=id", "http://x.y/z"]
)
async def test_other_addresses_are_never_given_to_git(rig, address):
    with trio.fail_after(LIMIT_S):
        ended = await swarm(rig, "plugin", "marketplace", "add", "--", address)
    assert ended.code == 2
    assert "neither an https or ssh address" in ended.err


async def test_an_archive_that_leads_out_leaves_nothing(rig):
    path = rig.folder / "bad.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in (".claude-plugin/plugin.json", "../../escaped"):
            info = tarfile.TarInfo(name)
            info.size = 2
            archive.addfile(info, io.BytesIO(b"{}"))
    with trio.fail_after(LIMIT_S):
        ended = await swarm(rig, "plugin", "add", str(path), "--yes")
    assert ended.code == 2
    assert "leads out" in ended.err
    assert not list(rig.folder.rglob("escaped"))


async def test_requirements_hold_over_installed_plugins_and_their_sources(rig):
    write_market(rig.folder / "market")
    limits = rig.home / "system" / "requirements.toml"
    with trio.fail_after(LIMIT_S):
        market = str(rig.folder / "market")
        assert (await swarm(rig, "plugin", "marketplace", "add", market)).code == 0
        assert (await swarm(rig, "plugin", "add", "demo", "--yes")).code == 0
        for text in (
            "allowed_plugins = []",
            'allowed_plugin_marketplaces = ["https://example.org/x.git"]',
        ):
            write(limits, f"{text}\n")
            listed = await swarm(rig, "skills", "list")
            assert "demo:notes" not in listed.out
            assert "requirements.toml, line 1" in listed.err
            assert (await swarm(rig, "plugin", "enable", "demo", "--yes")).code == 2
            assert (await swarm(rig, "plugin", "update", "demo", "--yes")).code == 2
        write(
            limits, f'allowed_plugins = ["demo@team"]\nallowed_plugin_marketplaces = ["{market}"]\n'
        )
        assert "demo:notes" in (await swarm(rig, "skills", "list")).out
