"""Keys and sign-ins that are stored: who gets them, what comes first, how they end."""

import json
import os
import signal
import stat
import time
from pathlib import Path

import msgspec
import pytest

from support.account_testbed import MODEL, Home, running_issuer

pytestmark = pytest.mark.live
KEY = "sentinel-4d2f8a6c0e1b3957-stored"
OTHER = "sentinel-9c7e5a3b1d0f2468-other"
RUN = ("run", "-p", "say hello", "--plain", *MODEL)


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


@pytest.fixture
def issuer(tmp_path):
    with running_issuer(tmp_path, f"key={KEY}") as running:
        yield running


def sign_in(home, issuer, **more):
    home.configure(issuer.table(**more))
    code, out, err = home.type("login", "there", "--timeout", "30")
    assert code == 0, out + err
    return home.account("openai@there")


def head_of(err):
    """What the first lines of a run say of its provider."""
    return next(line for line in err.splitlines() if "provider" in line)


def with_base(issuer):
    return f'openai_base_url = "{issuer.url}/v1"\n'


def test_a_stored_key_is_used_by_later_runs_and_the_first_line_says_which(home, issuer):
    home.configure(with_base(issuer))
    code, out, _ = home.type("login", "openai", "--with-api-key", stdin=f"{KEY}\n")
    assert (code, out) == (0, "Logged in to openai: API key, kept in a file for you alone.\n")
    code, out, err = home.type(*RUN)
    assert code == 0, err
    assert out == "hello from there\n"
    assert "account openai" in head_of(err)
    assert [one["token"] for one in issuer.seen("request")] == [KEY]
    assert KEY not in out + err
    assert KEY.encode() not in home.everything()


def test_its_file_is_the_persons_own(home, issuer):
    home.type("login", "openai", "--with-api-key", stdin=KEY)
    (file,) = home.accounts.glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_variable_comes_before_a_stored_key_and_the_first_line_says_so(home, issuer):
    issuer.change(key=OTHER)
    home.configure(with_base(issuer))
    home.type("login", "openai", "--with-api-key", stdin=KEY)
    code, _, err = home.type(*RUN, "--provider", "openai", OPENAI_API_KEY=OTHER)
    assert code == 0, err
    assert "comes before the stored account openai" in head_of(err)
    assert [one["token"] for one in issuer.seen("request")] == [OTHER]


def test_a_run_without_an_environment_finds_the_stored_key(home, issuer, tmp_path):
    home.configure(with_base(issuer))
    home.type("login", "openai", "--with-api-key", stdin=KEY)
    home.environment = {"SWARM_HOME": str(home.folder)}
    code, out, err = home.type(*RUN)
    assert (code, out) == (0, "hello from there\n"), err


def test_a_stored_key_goes_to_the_address_that_it_was_stored_for_alone(home, issuer):
    assert home.type("login", "openai", "--with-api-key", stdin=KEY)[0] == 0
    home.configure(with_base(issuer))
    code, _, err = home.type(*RUN)
    assert code == 5
    assert "was stored for https://api.openai.com:443" in err
    assert issuer.seen("request") == []


def test_a_project_names_neither_a_login_nor_where_a_key_goes(home, issuer):
    home.type("login", "openai", "--with-api-key", stdin=KEY)
    folder = home.work / ".swarm"
    folder.mkdir()
    text = with_base(issuer) + issuer.table() + 'mcp_oauth_credentials_store = "file"\n'
    folder.joinpath("config.toml").write_text(
        with_base(issuer) + 'mcp_oauth_credentials_store = "file"\n' + issuer.table()
    )
    assert "login" in text
    code, out, err = home.type("trust", "--yes")
    assert code == 0, err
    assert "login" in out + err
    assert "ignored: a project may not set it" in out + err
    code, _, err = home.type("login", "there")
    assert code == 2
    assert "no provider and no [login] table is called 'there'" in err
    home.type(*RUN, "--deadline", "20s", "-c", "request_max_retries=0")
    assert issuer.seen("request") == []
    assert issuer.seen("metadata") == []


def test_a_key_is_no_argument_and_no_two_lines(home):
    assert home.type("login", "openai", KEY)[0] == 2
    for wrong in ("", " \n", "one two", "one\ntwo", "k\u00e9y"):
        code, _, err = home.type("login", "openai", "--with-api-key", stdin=wrong)
        assert code != 0, wrong
        assert "key" in err
    assert not list(home.accounts.glob("*.json"))


def test_status_and_doctor_show_accounts_and_no_part_of_a_key(home):
    home.type("login", "openai", "--with-api-key", stdin=KEY)
    home.type("login", "openai@work", "--with-api-key", stdin=OTHER)
    code, out, _ = home.type("login", "--status", "--json")
    assert code == 0
    assert [(one["account"], one["kind"], one["kept_in"]) for one in json.loads(out)] == [
        ("openai", "key", "file"),
        ("openai@work", "key", "file"),
    ]
    _, told, _ = home.type("doctor")
    assert "account openai@work: API key" in told
    for part in (KEY[:14], KEY[-6:], OTHER[-6:]):
        assert part not in out + told
    assert home.type("login", "anthropic", "--status")[:2] == (1, "Not logged in to anthropic.\n")
    assert home.type("login", "work", "--status")[0] == 0
    assert home.type("logout", "openai")[:2] == (0, "Logged out of openai.\n")
    assert home.type("logout", "openai")[1] == "No login of openai is stored.\n"
    assert [path.stem for path in home.accounts.glob("*.json")] == ["openai@work"]


def test_one_signs_in_by_browser_with_pkce_and_runs_use_the_account(home, issuer):
    account = sign_in(home, issuer, scopes=["openid", "offline_access"])
    (asked,) = issuer.seen("authorized")
    assert asked["code_challenge_method"] == "S256"
    assert asked["client_id"] == "client-1"
    assert asked["scope"] == "openid offline_access"
    assert len(str(asked["state"])) == 43
    assert account.email == "person@example.com"
    code, out, err = home.type(*RUN)
    assert (code, out) == (0, "hello from there\n"), err
    assert "account openai@there" in head_of(err)
    assert [one["token"] for one in issuer.seen("request")] == [account.access_token]
    found = home.everything() + (out + err).encode()
    assert not [token for token in issuer.tokens() if token.encode() in found]


def test_the_form_of_chatgpt_works_with_a_client_id_of_ones_own(home, issuer):
    own = {
        "form": "chatgpt",
        "provider": "openai",
        "base_url": f"{issuer.url}/backend-api/codex",
        "authorization_endpoint": f"{issuer.url}/authorize",
        "token_endpoint": f"{issuer.url}/token",
        "revocation_endpoint": f"{issuer.url}/revoke",
        "workspaces": ["space-1"],
        "ports": [free_port()],
    }
    account = sign_in(home, issuer, **own)
    assert account.account_id == "space-1"
    (asked,) = issuer.seen("authorized")
    assert asked["allowed_workspace_id"] == "space-1"
    assert asked["id_token_add_organizations"] == "true"
    assert asked["redirect_uri"] == f"http://localhost:{own['ports'][0]}/auth/callback"
    assert home.type(*RUN)[0] == 0
    (request,) = issuer.seen("request")
    assert request["path"] == "/backend-api/codex/responses"
    assert request["chatgpt-account-id"] == "space-1"
    assert home.type("logout", "there")[0] == 0
    assert [one["known"] for one in issuer.seen("revoked")] == [True]
    assert not list(home.accounts.glob("*.json"))


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_form_without_a_client_id_says_that_none_comes_with_swarm(home):
    home.configure('[login.chatgpt]\nform = "chatgpt"\n')
    code, _, err = home.type("login", "chatgpt")
    assert code == 2
    assert "login.chatgpt.client_id" in err
    assert "none comes with swarm" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deny": "yes"}, "access_denied"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"named_issuer": "https://evil.example"}, "another issuer"),
        ({"workspace": "space-2"}, "not in an allowed workspace (space-1)"),
    ],
)
def test_a_sign_in_that_is_refused_or_not_as_forced_stores_nothing(home, issuer, options, words):
    issuer.change(**options)
    table = issuer.table(
        workspaces=["space-1"], account_claim=["https://api.openai.com/auth", "chatgpt_account_id"]
    )
    home.configure(table)
    code, _, err = home.type("login", "there", "--timeout", "20")
    assert code == 1
    assert words in err
    assert not list(home.accounts.glob("*.json"))


@pytest.mark.parametrize("flow", ["standard", "usercode"])
def test_one_signs_in_with_a_device_code(home, issuer, flow):
    issuer.change(device="0" if flow == "standard" else "2")
    more = {} if flow == "standard" else usercode(issuer)
    home.configure(issuer.table(**more))
    code, _, err = home.type("login", "there", "--device", "--timeout", "30")
    assert code == 0, err
    assert "ABCD-EFGH" in err
    assert f"{issuer.url}/enter" in err
    assert "started this sign-in yourself" in err
    assert home.account("openai@there").access_token in issuer.tokens()


def usercode(issuer):
    return {
        "device_flow": "usercode",
        "token_endpoint": f"{issuer.url}/token",
        "authorization_endpoint": f"{issuer.url}/authorize",
        "device_authorization_endpoint": f"{issuer.url}/device",
        "device_token_endpoint": f"{issuer.url}/device-token",
        "device_page": f"{issuer.url}/enter",
        "device_redirect": f"{issuer.url}/deviceauth/callback",
    }


@pytest.mark.parametrize(
    ("device", "flow", "words"),
    [
        ("denied", "standard", "the person refused"),
        ("late", "standard", "not entered in time"),
        ("off", "standard", "offers no sign-in by device code"),
        ("denied", "usercode", "access_denied"),
        ("off", "usercode", "does not offer device codes"),
    ],
)
def test_a_device_code_that_is_refused_late_or_not_offered_is_said(
    home, issuer, device, flow, words
):
    issuer.change(device=device)
    home.configure(issuer.table(**(usercode(issuer) if flow == "usercode" else {})))
    code, _, err = home.type("login", "there", "--device", "--timeout", "20")
    assert code == 1
    assert words in err
    assert not list(home.accounts.glob("*.json"))


def expire(home, name="openai@there"):
    account = home.account(name)
    home.store(msgspec.structs.replace(account, expires_at=time.time() - 5))
    return account


def test_an_expired_token_is_refreshed_once_for_all_runs(home, issuer):
    sign_in(home, issuer)
    before = expire(home)
    issuer.change(reuse="ends")
    with home.start(*RUN) as one, home.start(*RUN) as two:
        ends = [process.communicate(timeout=60) for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0), ends
    assert [seen["token"] for seen in issuer.seen("refreshed")] == [before.refresh_token]
    assert {seen["token"] for seen in issuer.seen("request")} == {
        home.account("openai@there").access_token
    }


def test_a_revoked_token_is_refreshed_and_the_request_is_sent_again(home, issuer):
    account = sign_in(home, issuer)
    issuer.change(revoked=json.dumps(account.access_token))
    code, out, err = home.type(*RUN)
    assert (code, out) == (0, "hello from there\n"), err
    assert [one["known"] for one in issuer.seen("request")] == [False, True]
    assert len(issuer.seen("refreshed")) == 1


def test_a_login_that_has_ended_is_one_clear_sentence_and_the_issuer_is_asked_once(home, issuer):
    sign_in(home, issuer)
    account = expire(home)
    home.store(msgspec.structs.replace(home.account(account.name), refresh_token="gone-token-1"))
    for _ in range(2):
        code, _, err = home.type(*RUN)
        assert code == 5
        sentence = "the login of the account openai@there has expired"
        assert sentence in err
        assert "type `swarm login there` to sign in again" in err
        assert "gone-token-1" not in err
    assert len(issuer.seen("refreshed")) == 1
    _, told, _ = home.type("login", "--status")
    assert "of no use any more" in told
    assert home.type("login", "there", "--timeout", "20")[0] == 0
    assert home.type(*RUN)[0] == 0


@pytest.mark.parametrize("status", ["403", "500", "502"])
def test_trouble_of_the_issuer_ends_no_login(home, issuer, status):
    sign_in(home, issuer)
    expire(home)
    issuer.change(refresh=status)
    code, _, err = home.type(*RUN)
    assert code == 5
    assert f"cannot be refreshed now: the authorization server answered with HTTP {status}" in err
    issuer.change()
    assert home.type(*RUN)[0] == 0


def gateways_of(pid: int) -> list[int]:
    found, pending = [], [pid]
    while pending:
        one = pending.pop()
        try:
            text = Path(f"/proc/{one}/task/{one}/children").read_text()
            title = Path(f"/proc/{one}/cmdline").read_bytes()
        except OSError:
            continue
        pending += map(int, text.split())
        found += [one] if b"gateway" in title else []
    return found


def test_kill_9_in_mid_refresh_leaves_a_login_that_can_be_read_and_no_lock(home, issuer):
    """The issuer has taken the token and not answered: what it rotated away is lost with it."""
    sign_in(home, issuer)
    before = expire(home)
    issuer.change(refresh="hang")
    with home.start(*RUN) as process:
        while not issuer.seen("refreshed"):
            assert process.poll() is None
            os.sched_yield()
        for pid in gateways_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate(timeout=60)
    assert home.account("openai@there").refresh_token == before.refresh_token
    issuer.change()
    code, _, err = home.type(*RUN)
    assert code == 5
    assert "refresh_token_reused" in err
    assert "type `swarm login there` to sign in again" in err
    assert home.type("login", "there", "--timeout", "20")[0] == 0
    assert home.type(*RUN)[0] == 0


def test_a_login_counts_only_for_the_issuer_client_and_method_of_the_configuration(home, issuer):
    sign_in(home, issuer)
    for table, words in (
        (issuer.table(client_id="client-2"), "does not name"),
        ("", "does not name"),
        ('forced_login_method = "api"\n' + issuer.table(), "forced_login_method"),
        ('forced_chatgpt_workspace_id = "space-9"\n' + issuer.table(), "space-9"),
        (issuer.table(base_url="http://127.0.0.1:9/v1"), "was stored for"),
    ):
        home.configure(table)
        code, _, err = home.type(*RUN, "--provider", "openai@there")
        assert code == 5, table
        assert words in err
    assert issuer.seen("request") == []
    assert home.account("openai@there").access_token in issuer.tokens()


def test_a_fallback_list_names_two_accounts_of_one_provider(home, issuer):
    issuer.change(key=KEY, spent="yes")
    home.configure(with_base(issuer) + 'fallback = ["openai@there:gpt-5.5"]\n' + issuer.table())
    assert home.type("login", "openai", "--with-api-key", stdin=KEY)[0] == 0
    assert home.type("login", "there", "--timeout", "30")[0] == 0
    code, out, err = home.type(*RUN, "--provider", "openai")
    assert (code, out) == (0, "hello from there\n"), err
    first, last = issuer.seen("request")
    assert (first["token"], last["token"]) == (KEY, home.account("openai@there").access_token)


def test_a_configured_provider_sends_a_stored_key_in_its_own_header(home, issuer):
    """As Azure OpenAI wants it: a deployment's address, a version in the query, `api-key`."""
    home.configure(
        f'[model_providers.azure]\nbase_url = "{issuer.url}/openai/deployments/gpt/"\n'
        'query_params = { api-version = "2025-04-01-preview" }\nkey_header = "api-key"\n'
    )
    assert home.type("login", "azure", "--with-api-key", stdin=KEY)[0] == 0
    code, out, err = home.type(*RUN)
    assert (code, out) == (0, "hello from there\n"), err
    (request,) = issuer.seen("request")
    assert request["path"] == "/openai/deployments/gpt/responses"
    assert request["query"] == "api-version=2025-04-01-preview"
    assert (request["api-key"], request["token"]) == (KEY, "")


@pytest.mark.parametrize("place", ["accounts", "accounts/deeper", "a link", "mcp-logins"])
def test_no_copy_of_the_project_holds_a_folder_of_stored_keys(home, place):
    """Neither where agents work nor a further folder of theirs."""
    home.type("login", "openai", "--with-api-key", stdin=KEY)
    folder = home.accounts.parent / place
    if place == "a link":
        folder = home.folder / "link"
        folder.symlink_to(home.accounts)
    folder.mkdir(parents=True, exist_ok=True)
    script = home.folder / "script.yaml"
    script.write_text("turns:\n- text: done\n")
    words = ("run", "-p", "x", "--plain", "--isolate", "--provider", f"scripted:{script}")
    for where in ("-C", "--add-dir"):
        code, out, err = home.type(*words, "-s", "workspace-write", where, str(folder))
        assert code == 1, out + err
        assert "no command ever sees" in err
    assert KEY.encode() not in home.everything()
