"""A login is found by its server's name and address alone, and shows no secret."""

import stat

import msgspec
import pytest

from swarm.mailbox.base.errors import SwarmError
from swarm.roles.config.login_store import LoginStore, StoredLogin, describe_login

LOGIN = StoredLogin(
    server="api", url="https://a.example/mcp", access_token="acc3ss", refresh_token="refr3sh",
    client_secret="s3cret", token_endpoint="https://a.example/token", client_id="c",
)  # fmt: skip


def test_what_was_written_is_read_by_the_same_name_and_address_alone(tmp_path):
    store = LoginStore(tmp_path / "logins")
    assert store.read("api", LOGIN.url) is None
    store.write(LOGIN)
    assert store.read("api", LOGIN.url) == LOGIN
    assert store.read("api", LOGIN.url + "/") is None
    assert store.read("apo", LOGIN.url) is None
    assert store.remove("api", LOGIN.url)
    assert not store.remove("api", LOGIN.url)


def test_its_file_and_folder_are_the_owners_own(tmp_path):
    LoginStore(tmp_path / "logins").write(LOGIN)
    (file,) = (tmp_path / "logins").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_file_that_was_moved_to_another_name_or_broken_is_no_login(tmp_path):
    store = LoginStore(tmp_path)
    store.write(LOGIN)
    (file,) = tmp_path.iterdir()
    other = msgspec.structs.replace(LOGIN, server="other")
    store.write(other)
    taken = next(path for path in tmp_path.iterdir() if path != file)
    taken.write_bytes(file.read_bytes())
    assert store.read("other", LOGIN.url) is None
    for broken in (b"", b"{", b"[]", b"\xff"):
        file.write_bytes(broken)
        assert store.read("api", LOGIN.url) is None


def test_one_holds_the_lock_at_a_time(tmp_path):
    store = LoginStore(tmp_path)
    with store.try_locked("api", LOGIN.url) as one, store.try_locked("api", LOGIN.url) as other:
        assert (one, other) == (True, False)
    with store.try_locked("api", LOGIN.url) as again:
        assert again


def test_a_folder_that_cannot_be_made_is_an_error_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SwarmError, match="cannot be kept"):
        LoginStore(tmp_path / "file").write(LOGIN)


def test_its_text_form_has_no_secret():
    for text in (repr(LOGIN), str(LOGIN), f"{LOGIN}"):
        assert not any(secret in text for secret in LOGIN.secrets())


def test_lists_say_what_a_login_is_worth():
    timed = msgspec.structs.replace(LOGIN, expires_at=1_800_000_000.0)
    assert describe_login(None) == "not logged in"
    assert describe_login(LOGIN) == "OAuth"
    assert describe_login(timed, now=1.7e9) == "OAuth until 2027-01-15 08:00 UTC"
    assert describe_login(timed, now=1.9e9) == "OAuth, refreshed at its next use"
    bare = msgspec.structs.replace(timed, refresh_token="")
    assert describe_login(bare, now=1.9e9) == "login expired"
