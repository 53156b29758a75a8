"""Accounts in a real keyring: gnome-keyring, asked over a D-Bus of its own."""

import json
import time

import msgspec
import pytest

from support.account_testbed import MODEL, Home, running_issuer
from support.secret_service import missing_programs, running_secret_service
from swarm.roles.parts.accounts.stored_account import StoredAccount

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {missing_programs()}"),
]
KEY = "sentinel-7a1c9e3b5d2f4068-in-the-ring"
RUN = ("run", "-p", "say hello", "--plain", *MODEL)


@pytest.fixture
def service():
    with running_secret_service() as running:
        yield running


@pytest.fixture
def home(tmp_path, service):
    made = Home(tmp_path)
    bus = service.environment["DBUS_SESSION_BUS_ADDRESS"]
    made.environment |= {"DBUS_SESSION_BUS_ADDRESS": bus}
    return made


@pytest.fixture
def issuer(tmp_path):
    with running_issuer(tmp_path, f"key={KEY}") as running:
        yield running


def kept(service, name):
    """The account as the keyring holds it."""
    found = [msgspec.json.decode(one, type=StoredAccount) for one in service.items()]
    return next((one for one in found if one.name == name), None)


def files_of(home):
    return b"".join(path.read_bytes() for path in home.folder.rglob("*") if path.is_file())


def sign_in(home, issuer):
    home.configure(issuer.table())
    code, out, err = home.type("login", "there", "--timeout", "30")
    assert code == 0, out + err
    assert "kept in the keyring" in out


def expire(home, service, tmp_path):
    """Its token has ended, as `swarm` itself would have stored it."""
    account = kept(service, "openai@there")
    old = msgspec.structs.replace(account, expires_at=time.time() - 5)
    service.replace(msgspec.json.encode(account).decode(), msgspec.json.encode(old).decode())
    return account


def test_a_key_is_kept_used_shown_and_forgotten_and_no_file_holds_it(home, service, issuer):
    home.configure(f'openai_base_url = "{issuer.url}/v1"\n')
    code, out, err = home.type("login", "openai", "--with-api-key", stdin=KEY)
    assert (code, out) == (0, "Logged in to openai: API key, kept in the keyring.\n"), err
    assert kept(service, "openai").key == KEY
    assert KEY.encode() not in files_of(home)
    code, out, err = home.type(*RUN)
    assert (code, out) == (0, "hello from there\n"), err
    assert [one["token"] for one in issuer.seen("request")] == [KEY]
    (line,) = json.loads(home.type("login", "--status", "--json")[1])
    assert (line["kept_in"], line["usable"]) == ("keyring", True)
    assert home.type("logout", "openai")[0] == 0
    assert service.items() == []
    assert not list(home.accounts.glob("*.json"))


def test_two_runs_at_once_refresh_once_and_the_keyring_holds_what_they_got(
    home, service, issuer, tmp_path
):
    sign_in(home, issuer)
    before = expire(home, service, tmp_path)
    issuer.change(reuse="ends")
    with home.start(*RUN) as one, home.start(*RUN) as two:
        ends = [process.communicate(timeout=90) for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0), ends
    assert [seen["token"] for seen in issuer.seen("refreshed")] == [before.refresh_token]
    after = kept(service, "openai@there")
    assert after.refresh_token != before.refresh_token
    assert {seen["token"] for seen in issuer.seen("request")} == {after.access_token}
    assert not [token for token in issuer.tokens() if token.encode() in files_of(home)]


def test_a_locked_keyring_is_one_sentence_and_unlocked_it_serves_again(home, service, issuer):
    home.configure(f'openai_base_url = "{issuer.url}/v1"\n')
    home.type("login", "openai", "--with-api-key", stdin=KEY)
    service.lock()
    code, _, err = home.type(*RUN)
    assert code == 5
    assert "`openai` is kept in the keyring, which does not give it" in err
    assert "unlock it" in err
    assert issuer.seen("request") == []
    told = home.type("doctor")[1]
    assert "does not give it" in told
    service.stop()
    service.start()
    assert home.type(*RUN)[:2] == (0, "hello from there\n")


def test_a_keyring_that_is_gone_before_a_refresh_costs_no_login(home, service, issuer, tmp_path):
    """Nothing is asked of the issuer whose answer could not be kept."""
    sign_in(home, issuer)
    before = expire(home, service, tmp_path)
    service.stop()
    code, _, err = home.type(*RUN)
    assert code == 5
    assert "which does not give it" in err
    assert issuer.seen("refreshed") == []
    service.start()
    assert kept(service, "openai@there").refresh_token == before.refresh_token
    assert home.type(*RUN)[:2] == (0, "hello from there\n")


def test_a_run_goes_on_with_its_key_while_the_keyring_is_gone(home, service, issuer):
    """In the middle of the run: the second request needs no keyring."""
    home.configure(f'openai_base_url = "{issuer.url}/v1"\n')
    home.type("login", "openai", "--with-api-key", stdin=KEY)
    issuer.change(key=KEY, hold=str(home.folder / "go on"))
    with home.start(*RUN) as process:
        while not issuer.seen("held"):
            assert process.poll() is None
            time.sleep(0.01)
        service.stop()
        (home.folder / "go on").touch()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "hello from there\n"), err
    assert len(issuer.seen("request")) == 2


def test_what_a_refresh_got_while_the_keyring_went_serves_this_run(home, service, issuer, tmp_path):
    """The old token is used up, the new one cannot be kept: the run has it, and says so."""
    sign_in(home, issuer)
    expire(home, service, tmp_path)
    issuer.change(slow=str(home.folder / "go on"))
    with home.start(*RUN) as process:
        while not issuer.seen("refreshed"):
            assert process.poll() is None
            time.sleep(0.01)
        service.stop()
        (home.folder / "go on").touch()
        out, err = process.communicate(timeout=90)
    assert (process.returncode, out) == (0, "hello from there\n"), err
    assert "cannot be kept" in err
    assert "type `swarm login there`" in err
    assert not [token for token in issuer.tokens() if token.encode() in files_of(home)]
