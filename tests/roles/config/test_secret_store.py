"""A secret is kept where the setting says, is found there later, and never in two places."""

import stat
import sys
from pathlib import Path

import pytest

from swarm.roles.config.secret_store import SecretStore, SecretsUnavailable

SECRET = b'{"key":"sentinel-5e1d"}'
RING = """
import json
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

PLACE = Path({place!r})


class Ring(KeyringBackend):
    priority = 9

    def _all(self):
        return json.loads(PLACE.read_text()) if PLACE.exists() else {{}}

    def get_password(self, service, user):
        return self._all().get(service + " " + user)

    def set_password(self, service, user, password):
        PLACE.write_text(json.dumps(self._all() | {{service + " " + user: password}}))

    def delete_password(self, service, user):
        held = self._all()
        if held.pop(service + " " + user, None) is None:
            raise PasswordDeleteError("none")
        PLACE.write_text(json.dumps(held))
"""


@pytest.fixture
def ring(tmp_path, monkeypatch):
    """A keyring that works, as its own configuration names it: it holds what is in this file."""
    place = tmp_path / "held.json"
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "testring.py").write_text(RING.format(place=str(place)))
    folder = tmp_path / "config" / "python_keyring"
    folder.mkdir(parents=True)
    (folder / "keyringrc.cfg").write_text(
        f"[backend]\ndefault-keyring=testring.Ring\nkeyring-path={tmp_path / 'ring'}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND", raising=False)
    return place


@pytest.fixture
def no_ring(monkeypatch):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def forgetful_ring(monkeypatch):
    """It takes everything, and gives nothing back."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")


def files(store: SecretStore) -> bytes:
    return b"".join(path.read_bytes() for path in store.folder.glob("*"))


@pytest.mark.parametrize("wanted", ["auto", "keyring"])
def test_a_keyring_that_works_holds_the_secret_and_no_file_does(ring, tmp_path, wanted):
    store = SecretStore(tmp_path / "secrets")
    assert store.write("one", SECRET, wanted) == "keyring"
    assert (store.kept_in("one"), store.read("one")) == ("keyring", SECRET)
    assert SECRET not in files(store)
    assert SECRET.decode() in Path(ring).read_text().replace("\\", "")
    assert SecretStore(tmp_path / "other").read("one") is None
    assert store.remove("one")
    assert "sentinel" not in Path(ring).read_text()
    assert (store.names(), store.read("one")) == ((), None)


def test_with_file_a_keyring_is_not_asked(ring, tmp_path):
    store = SecretStore(tmp_path / "secrets")
    assert store.write("one", SECRET, "file") == "file"
    assert not Path(ring).exists()
    (file,) = store.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700


def test_auto_without_a_keyring_is_a_file(no_ring, tmp_path):
    assert SecretStore(tmp_path).write("one", SECRET, "auto") == "file"


def test_auto_trusts_no_keyring_that_does_not_give_back_what_it_took(forgetful_ring, tmp_path):
    store = SecretStore(tmp_path)
    assert store.write("one", SECRET, "auto") == "file"
    assert store.read("one") == SECRET


@pytest.mark.parametrize("lack", ["no_ring", "forgetful_ring"])
def test_keyring_alone_is_an_error_where_none_works_and_nothing_is_written(lack, request, tmp_path):
    request.getfixturevalue(lack)
    store = SecretStore(tmp_path / "secrets")
    with pytest.raises(SecretsUnavailable, match="cannot be kept in the keyring"):
        store.write("one", SECRET, "keyring")
    assert store.names() == ()


def test_an_entry_stays_where_it_is_until_somebody_says_otherwise(ring, tmp_path):
    store = SecretStore(tmp_path / "secrets")
    store.write("one", SECRET, "keyring")
    assert store.write("one", b"new") == "keyring"
    assert store.read("one") == b"new"
    assert store.write("one", b"newer", "file") == "file"
    assert "new" not in Path(ring).read_text()
    assert store.write("one", b"newest") == "file"
    assert store.read("one") == b"newest"


def test_a_keyring_that_is_gone_is_said_with_what_to_do(ring, tmp_path, monkeypatch):
    SecretStore(tmp_path / "secrets").write("one", SECRET, "keyring")
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    with pytest.raises(SecretsUnavailable, match="log in again"):
        SecretStore(tmp_path / "secrets").read("one")


def test_what_variables_of_a_run_name_is_not_loaded_beside_the_secret(tmp_path, monkeypatch):
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "keyring.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (trap / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.setenv("PYTHONPATH", str(trap))
    monkeypatch.chdir(trap)
    SecretStore(tmp_path / "secrets").write("one", SECRET, "auto")
    assert not (tmp_path / "ran").exists()
    assert "keyring" not in sys.modules or trap not in Path(sys.modules["keyring"].__file__).parents
