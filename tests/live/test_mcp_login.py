"""A login with a server over HTTP: made, used, refreshed, ended; real processes on loopback."""

import json
import stat
from contextlib import ExitStack

import msgspec
import pytest

from support.oauth_testbed import BROWSER, HubProgram, start_login_server
from swarm.roles.config.login_store import LoginStore
from swarm.supervisor.clients.cli.base import mcp_process
from swarm.supervisor.clients.cli.main import run_cli

pytestmark = pytest.mark.live


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("SWARM_HOME", str(home))
    monkeypatch.setenv("BROWSER", BROWSER)
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture
def start(home, tmp_path):
    """Start the server with these options, and configure it as `api`."""
    with ExitStack() as stack:

        def start_one(*options, more=""):
            server = start_login_server(tmp_path, *options)
            stack.enter_context(server.process)
            stack.callback(server.process.terminate)
            (home / "config.toml").write_text(f'[mcp_servers.api]\nurl = "{server.url}"\n{more}\n')
            return server

        yield start_one


@pytest.fixture
def typed(home, capfd, monkeypatch):
    """Type a command: its exit code, standard output and standard error."""
    monkeypatch.setattr(mcp_process, "subprocess", HubProgram())

    def run_typed(*words):
        code = run_cli(["mcp", *words])
        return code, *capfd.readouterr()

    return run_typed


def stored(home, server):
    return LoginStore(home / "state" / "mcp-logins").read("api", server.url)


def expire(home, server):
    """Let the stored token be over; returns the login as it was."""
    login = stored(home, server)
    past = msgspec.structs.replace(login, expires_at=1.0)
    LoginStore(home / "state" / "mcp-logins").write(past)
    return login


def listed(typed):
    return json.loads(typed("list", "--json")[1])[0]


def test_a_login_is_made_used_shown_and_ended(start, typed, home):
    server = start()
    code, _, err = typed("call", "api", "whoami")
    assert (code, err) == (1, "swarm: api: whoami: it needs a login: run `swarm mcp login api`\n")
    assert listed(typed)["auth_status"] == "not_logged_in"
    code, out, err = typed("login", "api")
    assert (code, out.split(" (")[0]) == (0, "Successfully logged in to MCP server 'api'"), err
    assert f"{server.url.removesuffix('/mcp')}/authorize?" in err
    assert typed("call", "api", "whoami")[:2] == (0, '[{"type":"text","text":"hello"}]\n')
    assert listed(typed)["auth_status"] == "o_auth"
    assert "OAuth until 20" in typed("list")[1]
    assert "OAuth until 20" in typed("get", "api")[1]
    assert typed("doctor")[0] == 0
    assert server.seen("authorized")[0]["resource"] == server.url
    (file,) = (home / "state" / "mcp-logins").glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert typed("logout", "api") == (0, "Removed the login with MCP server 'api'.\n", "")
    assert server.seen("revoked") == [{"what": "revoked", "known": True}]
    assert not file.exists()
    assert typed("logout", "api")[1] == "No login with MCP server 'api' is stored.\n"
    assert typed("call", "api", "whoami")[0] == 1


def test_an_expired_token_is_refreshed_and_one_that_cannot_be_says_so(start, typed, home):
    server = start("refresh=once")
    assert typed("login", "api")[0] == 0
    first = expire(home, server)
    assert "OAuth, refreshed at its next use" in typed("list")[1]
    assert typed("call", "api", "whoami")[0] == 0
    second = expire(home, server)
    assert first.access_token != second.access_token
    assert server.seen("refreshed") == [
        {"what": "refreshed", "resource": server.url, "secret": False}
    ]
    code, _, err = typed("call", "api", "whoami")
    assert code == 1
    assert "its login has expired (the authorization server answered with HTTP 400)" in err
    assert "run `swarm mcp login api`" in err
    assert typed("login", "api")[0] == 0
    assert len(server.seen("authorized")) == 2


def test_a_token_without_refresh_expires_in_words(start, typed):
    start("lifetime=1", "refresh=no")  # so short a life counts as over
    assert typed("login", "api")[0] == 0
    assert "login expired" in typed("list")[1]
    assert (
        "the server gave no refresh token): run `swarm mcp login api`" in typed("tools", "api")[2]
    )


def test_a_client_with_a_secret_shows_it_and_is_registered_once(start, typed, home):
    server = start("secret=yes")
    assert typed("login", "api")[0] == 0
    assert typed("login", "api")[0] == 0
    expire(home, server)
    assert len(server.seen("registered")) == 1
    assert typed("call", "api", "whoami")[0] == 0
    assert server.seen("refreshed")[0]["secret"] is True


def test_more_rights_are_asked_for_by_the_next_login(start, typed):
    server = start("scope=write")
    assert typed("login", "api", "--scopes", "read")[0] == 0
    code, _, err = typed("call", "api", "whoami")
    assert code == 1
    assert "it asks for more rights than its login has (write): run `swarm mcp login api`" in err
    assert typed("login", "api")[0] == 0
    assert [one["scope"] for one in server.seen("authorized")] == ["read", "read write"]
    assert typed("call", "api", "whoami")[0] == 0


def test_the_tables_scopes_and_resource_are_asked_for(start, typed):
    server = start(more='scopes = ["a", "b"]\noauth_resource = "https://res.example/x"')
    assert typed("login", "api")[0] == 0
    assert server.seen("authorized") == [
        {"what": "authorized", "scope": "a b", "resource": "https://res.example/x"}
    ]


def test_a_login_holds_for_its_address_alone(start, typed, home):
    server = start()
    assert typed("login", "api")[0] == 0
    other = server.url.replace("127.0.0.1", "localhost")
    (home / "config.toml").write_text(f'[mcp_servers.api]\nurl = "{other}"\n')
    assert "it needs a login" in typed("call", "api", "whoami")[2]


def test_a_refused_or_unanswered_login_says_so(start, typed, monkeypatch):
    start("deny=yes")
    code, _, err = typed("login", "api")
    assert code == 1
    assert "not logged in to 'api': the authorization server refused: access_denied" in err
    monkeypatch.setenv("BROWSER", "true")
    code, _, err = typed("login", "api", "--timeout", "3")
    assert (code, "nobody answered within 3 s (--timeout)" in err) == (1, True)


def test_what_no_login_is_for_is_a_usage_error(home, typed):
    (home / "config.toml").write_text(
        '[mcp_servers.local]\ncommand = "true"\n'
        '[mcp_servers.token]\nurl = "http://127.0.0.1:9/"\nbearer_token_env_var = "T"\n'
    )
    assert "only for servers over HTTP" in typed("login", "local")[2]
    assert "uses the token of the variable T" in typed("login", "token")[2]
    assert typed("login", "tokn")[0] == 2
    assert "bearer token" in typed("list")[1]
