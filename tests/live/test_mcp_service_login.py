"""Logins of a program with a server over HTTP: a client with a secret or a key, and no person."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from live.test_mcp_login import home, listed, start, typed  # noqa: F401 (fixtures)

pytestmark = pytest.mark.live
CLIENT = 'oauth_grant = "client_credentials"\noauth_client_id = "program"\n'
SECRET = CLIENT + 'oauth_client_secret_env_var = "PROGRAM_SECRET"\n'
KEY = CLIENT + 'oauth_client_key_env_var = "PROGRAM_KEY"\n'


def new_key():
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_a_program_with_a_secret_gets_a_token_when_it_needs_one(start, typed, home, monkeypatch):  # noqa: F811
    monkeypatch.setenv("PROGRAM_SECRET", "c" * 40)
    server = start("echo=yes", more=SECRET + 'scopes = ["read"]')
    code, out, err = typed("call", "api", "whoami")
    assert (code, err) == (0, "")
    assert "hello" in out
    assert not any(token in out for token in server.tokens())  # it came back, and is hidden
    assert [one["scope"] for one in server.seen("program")] == ["read"]
    assert server.seen("registered") == server.seen("authorized") == []
    assert not (home / "state" / "mcp-logins").exists()
    assert listed(typed)["auth"] == "client credentials"
    code, _, err = typed("login", "api")
    assert (code, "a login would have no effect" in err) == (2, True)


def test_a_program_with_a_key_signs_its_proof_for_the_authorization_server(
    start,  # noqa: F811
    typed,  # noqa: F811
    monkeypatch,
):
    monkeypatch.setenv("PROGRAM_KEY", new_key())
    server = start(more=KEY)
    assert typed("call", "api", "whoami")[0] == 0
    claims = server.seen("program")[0]["claims"]
    assert (claims["iss"], claims["sub"]) == ("program", "program")
    assert claims["aud"] == server.url.removesuffix("/mcp")


@pytest.mark.parametrize(
    ("options", "more", "secret", "says"),
    [
        ((), SECRET, "wrong", "gave no token for the client"),
        ((), SECRET, "", "the variable PROGRAM_SECRET is not set"),
        ((), KEY, "", "is not a private key in PEM"),
        (("endpoint=http://localhost:PORT/token",), SECRET, "c" * 40, "is on another host"),
        (
            (),
            SECRET + 'oauth_issuer = "https://login.example.org"\n',
            "c" * 40,
            "issuer mismatch",
        ),
    ],
)
def test_a_client_that_cannot_be_used_says_why_and_shows_no_secret(
    options,
    more,
    secret,
    says,
    start,  # noqa: F811
    typed,  # noqa: F811
    monkeypatch,
):
    monkeypatch.setenv("PROGRAM_KEY", "no key")
    if secret:
        monkeypatch.setenv("PROGRAM_SECRET", secret)
    server = start(*options, more=more)
    code, _, err = typed("call", "api", "whoami")
    assert code == 1
    assert says in err
    assert "Traceback" not in err
    assert "c" * 40 not in err
    assert server.seen("token") == []
