"""What a login has given stays with the hub: out of commands, results, logs and journals."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from live.test_mcp_login import expire, home, start, stored, typed  # noqa: F401 (fixtures)
from support.mcp_testbed import LIMIT_S, call, ends, run
from support.oauth_testbed import BROWSER, start_login_server

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
SWARM = str(Path(sys.executable).with_name("swarm"))


def test_runs_that_share_an_expired_login_refresh_it_once(start, typed, home):  # noqa: F811
    server = start()
    assert typed("login", "api")[0] == 0
    expire(home, server)
    words = [SWARM, "mcp", "call", "api", "whoami"]
    with subprocess.Popen(words) as one, subprocess.Popen(words) as two:
        assert (one.wait(60), two.wait(60)) == (0, 0)
    assert len(server.seen("refreshed")) == 1


def test_a_token_that_its_server_sends_back_is_not_shown(start, typed, home):  # noqa: F811
    server = start("echo=yes")
    assert typed("login", "api")[0] == 0
    code, out, err = typed("call", "api", "whoami")
    assert code == 0
    assert "hello" in out
    assert stored(home, server).access_token not in out + err


async def test_an_agent_uses_a_login_and_none_of_its_commands_reads_it(rig, tmp_path):
    server = start_login_server(tmp_path, "echo=yes")
    with server.process, trio.fail_after(LIMIT_S):
        try:
            (rig.home / "config.toml").write_text(
                f'[mcp_servers.api]\nurl = "{server.url}"\n'
                'default_tools_approval_mode = "approve"\n'
            )
            needs = await run(rig, *ends(call("whoami", server="api")))
            assert "it needs a login: run `swarm mcp login api`" in needs.err
            rig.forget_run()
            environment = {**rig.environment, "BROWSER": BROWSER}
            await trio.run_process(
                [SWARM, "mcp", "login", "api"], env=environment, cwd=rig.work, capture_stdout=True
            )
            folder = rig.home / "state" / "mcp-logins"
            look = f"ls -la {folder}; cat {folder}/*; cp -r {folder} . ; mv {folder} {folder}-2"
            command = {"name": "exec_command", "arguments": {"cmd": f"{look}; echo looked"}}
            ended = await run(rig, *ends(call("whoami", server="api"), command))
        finally:
            server.process.terminate()
    assert ended.code == 0, ended.err
    assert "looked" in ended.out
    assert [one["method"] for one in server.seen("request")].count("tools/call") == 1
    kept = [path for path in rig.work.rglob("*") if path.is_file()]
    kept += [path for path in (rig.home / "state" / "runs").rglob("*") if path.is_file()]
    text = b"".join(path.read_bytes() for path in kept) + (ended.out + ended.err).encode()
    assert not [token for token in server.tokens() if token.encode() in text]
    assert len(list(folder.glob("*.json"))) == 1
