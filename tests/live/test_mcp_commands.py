"""`swarm mcp` as a person types it, with real servers."""

import json
import shutil

import pytest
import trio

from support.mcp_testbed import BESIDE, LIMIT_S, call, configure, ends, run
from support.oauth_testbed import HubProgram
from swarm.supervisor.clients.cli.base import mcp_process
from swarm.supervisor.clients.cli.main import run_cli

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
TIME = str(BESIDE / "mcp-server-time")


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Type a command: its exit code, standard output and standard error."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("SWARM_HOME", str(home))
    monkeypatch.chdir(tmp_path)

    def run_typed(*words):
        code = run_cli(["mcp", *words])
        return code, *capsys.readouterr()

    return run_typed


@pytest.fixture
def forked_hub(monkeypatch):
    """The first test starts the hub's program as a person's command does."""
    monkeypatch.setattr(mcp_process, "subprocess", HubProgram())


def test_a_server_is_added_listed_called_disabled_and_removed(typed):
    assert typed("list") == (
        0, "No MCP servers configured yet. Try `swarm mcp add my-tool -- my-command`.\n", ""
    )  # fmt: skip
    assert typed("add", "time", "--env", "SECRET=hidden", "--", TIME) == (
        0, "Added global MCP server 'time'.\n", ""
    )  # fmt: skip
    code, out, _ = typed("get", "time")
    assert code == 0
    assert "*****" in out
    assert "hidden" not in out
    code, out, err = typed("call", "time", "get_current_time", '{"timezone": "Asia/Tokyo"}')
    assert (code, json.loads(out)["timezone"], err) == (0, "Asia/Tokyo", "")
    code, out, _ = typed("tools", "time", "--json")
    assert code == 0
    assert [one["tool"] for one in json.loads(out)["tools"]] == ["convert_time", "get_current_time"]
    assert typed("disable", "time")[0] == 0
    assert " disabled " in typed("list")[1]
    code, out, err = typed("call", "time", "get_current_time", '{"timezone": "UTC"}')
    assert code == 0  # named, so it is used
    assert typed("enable", "time")[0] == 0
    assert typed("remove", "time")[1] == "Removed global MCP server 'time'.\n"
    assert typed("remove", "time")[1] == "No MCP server named 'time' found.\n"


@pytest.mark.usefixtures("forked_hub")
def test_a_call_that_fails_says_why_and_has_exit_code_one(typed):
    typed("add", "time", "--", TIME)
    code, out, _ = typed("call", "time", "get_current_time", '{"timezone": "Nowhere"}')
    assert code == 1
    assert "Invalid timezone" in out
    code, _, err = typed("call", "time", "absent")
    assert (code, err) == (
        1,
        "swarm: time: absent: the server has no enabled tool `absent`; `swarm mcp tools time` "
        "lists those that are\n",
    )
    code, _, err = typed("call", "tme", "absent")
    assert (code, err) == (2, "swarm: there is no MCP server `tme`; did you mean `time`?\n")
    assert typed("call", "time", "get_current_time", "[1]")[0] == 2
    assert typed("call", "time", "get_current_time", "{")[0] == 2


@pytest.mark.usefixtures("forked_hub")
def test_doctor_starts_each_server_and_names_those_that_cannot_be_used(typed):
    typed("add", "time", "--", TIME)
    assert typed("doctor")[0] == 0
    typed("add", "lost", "--", "no-such-program")
    code, out, _ = typed("doctor", "--json")
    first, second = (json.loads(line) for line in out.splitlines())
    assert code == 1
    assert (first["server"], first["state"]) == ("time", "ok")
    assert (second["server"], second["state"]) == ("lost", "fail")
    assert "there is no program `no-such-program`" in second["detail"]


async def test_what_a_server_wrote_in_a_run_can_be_read_afterwards(rig, monkeypatch, capsys):
    configure(rig)
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(call("says"), call("echo", text="on")))
    assert ended.code == 0, ended.err
    path = rig.places.mcp_logs / "odd.log"
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("SWARM_HOME", str(rig.home))
    assert run_cli(["mcp", "logs"]) == 0
    assert capsys.readouterr().out == "odd\n"
    assert run_cli(["mcp", "logs", "odd"]) == 0
    shown = capsys.readouterr().out
    assert "the server's own log\n" in shown
    assert "[warning] a ⟨ESC⟩[31mred⟨ESC⟩[0m message\n" in shown
    assert "\x1b" not in shown
    assert run_cli(["mcp", "logs", "other"]) == 2
    assert "servers that did: odd" in capsys.readouterr().err
