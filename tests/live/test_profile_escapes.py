"""What a command under a permission profile tries and must not get, in both stacks."""

import os
import shutil
from contextlib import contextmanager

import pytest

from support.escape_testbed import open_escape_testbed
from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.path_rules import read_only_profile
from swarm.roles.rights.permission_profiles import ProfileContext, resolve_profile
from swarm.supervisor.clients.cli.base.sandboxed_script import run_sandboxed_script
from swarm.worker.sandbox.sandbox_plan import SandboxUnavailable, plan_sandbox


@pytest.fixture(params=["landlock", "bwrap"])
def testbed(request):
    with open_escape_testbed(request.param) as made:
        files = {
            "work/.env": "in the root", "work/src/deep/x.env": "deep", "work/src/code": "code",
            "work/docs/page": "page", "secret/key": "hush", "secret/pub/cert": "public",
            "other/data": "data",
        }  # fmt: skip
        for name, text in files.items():
            path = made.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        yield made


def profile(testbed, files=None, **more):
    """Restricted reading unless `:root` is given."""
    entries = {
        ":minimal": "read", ":tmpdir": "write", f"{testbed.home}/secret": "deny",
        ":project_roots": {".": "write", "docs": "read", "**/*.env": "deny"}, **(files or {}),
    }  # fmt: skip
    tables = {"p": {"filesystem": entries, **more}}
    return resolve_profile("p", tables, ProfileContext(cwd=str(testbed.work))).policy


@contextmanager
def unchanged(testbed):
    """The closed files are afterwards as they were."""
    yield
    closed = ("work/.env", "work/src/deep/x.env", "work/docs/page", "secret/key", "other/data")
    texts = ["in the root", "deep", "page", "hush", "data"]
    assert [(testbed.home / name).read_text() for name in closed] == texts


ALL = {":root": "read"}
BOTH = pytest.mark.parametrize("files", [{}, ALL], ids=["named", "all-but"])


READS = (
    "cat {work}/.env", "cat src/deep/x.env", "cat ../secret/key", "ls ../secret",
    "cat {work}/../secret/key", "cat /proc/self/cwd/.env", "cat /proc/self/root{work}/.env",
    "ln -s {work}/.env l; cat l", "ln .env l2 && cat l2",
    "cp -a src /tmp/s && cat /tmp/s/deep/x.env", "cp -a src $TMPDIR/s; cat $TMPDIR/s/deep/x.env",
    "cd src && cat deep/x.env", "exec 3<.env && cat <&3", "mv .env e && cat e",
    "mv src s && cat s/deep/x.env", "mv src/deep src/d && cat src/d/x.env",
    "mkdir -p n && mount --bind src n && cat n/deep/x.env", "umount .env; cat .env",
    "unshare -Urm cat .env", "unshare -Urm sh -c 'umount .env; umount src/deep/x.env; cat .env'",
    "chmod 777 ../secret; ls ../secret", "tar cf - . | grep -a 'in the root'",
    "cat .e*; cat src/*/x.env; cat ../secret/*",
)  # fmt: skip


@BOTH
async def test_what_is_denied_is_not_read(testbed, files):
    script = "\n".join(f"( {one} ) && echo 'TRY {n} WENT'" for n, one in enumerate(READS))
    with unchanged(testbed):
        said = await testbed.sh(f"{script}\necho done", policy=profile(testbed, files))
    assert "WENT" not in said.text
    for word in ("in the root", "deep\n", "hush", "key\n"):
        assert word not in said.text
    assert said.text.endswith("done\n")


@BOTH
async def test_what_is_denied_is_not_written_or_taken_away(testbed, files):
    script = (
        "echo x > .env; echo x > src/deep/x.env; echo x > docs/page; echo x > docs/new; rm -f .env;"
        "rm -rf docs; mv docs d; echo x > ../other/data; echo x > ../other/new; truncate -s0 .env;"
        "mkdir ../secret/new; true"
    )
    with unchanged(testbed):
        await testbed.sh(script, policy=profile(testbed, files))
    assert sorted(os.listdir(testbed.home / "work/docs")) == ["page"]
    assert sorted(os.listdir(testbed.home / "secret")) == ["key", "pub"]
    assert os.listdir(testbed.home / "other") == ["data"]


async def test_only_what_is_named_can_be_read(testbed):
    said = await testbed.sh(
        "cat ../other/data || cat /var/lib/dpkg/status", policy=profile(testbed)
    )
    assert said.status.exit_code != 0
    assert "data" not in said.text.replace("other/data", "")
    said = await testbed.sh("ls /home || ls /root || ls /var/lib", policy=profile(testbed))
    assert said.status.exit_code != 0


@BOTH
async def test_what_is_given_is_given(testbed, files):
    given = {**files, f"{testbed.home}/secret/pub": "read", f"{testbed.home}/other": "read"}
    script = (
        "cat src/code docs/page ../secret/pub/cert ../other/data && echo new > src/sub-new;"
        "cat src/sub-new; echo t > $TMPDIR/t && cat $TMPDIR/t; ls docs ../secret/pub"
    )
    said = await testbed.sh("mkdir -p lib && echo one > lib/one && cat lib/one; " + script,
                          policy=profile(testbed, given))  # fmt: skip
    for word in ("code", "page", "public", "data", "t\n", "cert"):
        assert word in said.text
    if testbed.stack == "bwrap":  # in the other nothing new beside something closed
        assert "one" in said.text
        assert "new" in said.text


async def test_a_rule_inside_of_a_closed_folder_opens_just_that(testbed):
    given = {f"{testbed.home}/secret/pub": "write"}
    script = "echo x > ../secret/pub/new && cat ../secret/pub/new; ls ../secret; cat ../secret/key"
    said = await testbed.sh(script, policy=profile(testbed, given))
    assert said.text.startswith("x\n")
    assert "hush" not in said.text
    assert said.status.exit_code != 0


async def test_a_link_that_takes_the_place_of_something_readable_opens_nothing(testbed):
    (testbed.home / "shared").mkdir()
    policy = profile(testbed, {f"{testbed.home}/shared": "read"})
    (testbed.home / "shared").rmdir()
    (testbed.home / "shared").symlink_to(testbed.home / "other")
    said = await testbed.sh("cat ../shared/data || cat ../other/data", policy=policy)
    assert said.status.exit_code != 0


async def test_a_file_that_came_to_fit_a_pattern_is_closed_to_the_next_command(testbed):
    policy = profile(testbed)
    (testbed.home / "work/src/later.env").write_text("later it came")
    said = await testbed.sh("cat src/later.env", policy=policy)
    assert said.status.exit_code != 0
    assert "later it came" not in said.text


async def test_a_reading_role_under_a_profile_reads_less_and_writes_nothing(testbed):
    policy = read_only_profile(profile(testbed))
    with unchanged(testbed):
        said = await testbed.sh(
            "cat src/code; echo x > src/n; cat .env ../secret/key", policy=policy
        )
    assert "code" in said.text
    assert not (testbed.home / "work/src/n").exists()
    assert "hush" not in said.text


async def test_the_runs_own_folders_stay_hidden_whatever_a_profile_says(testbed):
    (testbed.run_folder / "sub").mkdir()
    (testbed.run_folder / "sub/socket").write_text("of the run")
    policy = profile(testbed, {f"{testbed.run_folder}/sub": "write", **ALL})
    said = await testbed.sh("cat ../run/sub/socket; echo x > ../run/sub/socket", policy=policy)
    assert "of the run" not in said.text
    assert (testbed.run_folder / "sub/socket").read_text() == "of the run"


async def test_protected_names_stay_read_only(testbed):
    (testbed.work / ".git").mkdir()
    said = await testbed.sh(
        "echo x > .git/config; echo x > .swarm/x; true", policy=profile(testbed)
    )
    assert os.listdir(testbed.work / ".git") == []
    assert not (testbed.work / ".swarm").exists()
    assert said.status.exit_code == 0


def test_the_command_of_a_fan_out_reads_no_more_than_agents_do(testbed):
    policy = read_only_profile(profile(testbed))
    said = run_sandboxed_script(
        "cat src/code; cat .env ../secret/key 2>&1; true", testbed.work, policy=policy
    )
    assert said.startswith("code")
    assert "hush" not in said
    assert "in the root" not in said
    with pytest.raises(UsageError, match="failed with exit code"):
        run_sandboxed_script("echo x > src/made", testbed.work, policy=policy)


async def test_the_network_stays_off(testbed):
    script = "import socket; socket.socket().connect(('127.0.0.1', 9))"
    said = await testbed.py(script, policy=profile(testbed))
    assert "ermission" in said.text or "nreachable" in said.text or "refused" in said.text
    assert said.status.exit_code != 0


def test_too_much_to_be_kept_closed_is_refused(testbed, monkeypatch):
    for index in range(20):
        (testbed.work / f"{index}.env").write_text("")
    monkeypatch.setattr("swarm.worker.sandbox.profile_plan._MOST_MATCHES", 10)
    with pytest.raises(SandboxUnavailable, match="more than 10 files fit"):
        plan_sandbox(profile(testbed), cwd=str(testbed.work), tmp_dir=None, stack=testbed.stack)


def test_without_a_stack_or_under_a_closed_folder_nothing_starts(testbed):
    policy = profile(testbed)
    with pytest.raises(SandboxUnavailable, match="neither bubblewrap nor Landlock"):
        plan_sandbox(policy, cwd=str(testbed.work), tmp_dir=None, stack="none")
    with pytest.raises(SandboxUnavailable, match="does not let commands read"):
        plan_sandbox(policy, cwd=str(testbed.home / "secret"), tmp_dir=None, stack=testbed.stack)
    with pytest.raises(SwarmError):
        resolve_profile("none", {}, ProfileContext(cwd=str(testbed.work)))
    shutil.rmtree(testbed.home / "secret")
    plan_sandbox(policy, cwd=str(testbed.work), tmp_dir=None, stack=testbed.stack)
