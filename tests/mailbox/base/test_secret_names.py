"""Variables that hold a secret are known by their names and by their values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.secret_names import holds_secret

SECRET = """
DB_PASS DB_PASS_PROD DB_PASS2 DB_PASSWORD PGPASSWORD MYSQL_PWD REDIS_PW SMTP_PASS pgPassword
dbPass SENTRY_DSN DATABASE_DSN SENTRY_DSN_STAGING GITHUB_PAT AZURE_SAS STRIPE_KEY AWS_SECRET
NPM_TOKEN CONNECTION_STRING AZURE_STORAGE_CONNECTION_STRING CONN_STR APP_JWT SESSION_COOKIE
NPM_AUTH _AUTH GOOGLE_CREDENTIALS AWS_CREDS DB_PASSWD SSH_PASSPHRASE LOGIN_PASSCODE SIM_PIN
PASSWORD PASS
"""
OPEN = """
PATH PWD OLDPWD HOME SSH_ASKPASS SUDO_ASKPASS SSH_AUTH_SOCK XAUTHORITY LANG COMPASS BYPASS_CACHE
PASSENGER_ROOT CPATH MANPATH SPIN PINS_DIR PATCH COOKIECUTTER_CONFIG AUTHOR GIT_AUTHOR_NAME
PASSTHROUGH EDITOR DATABASE_URL DATABASE_HOST JWT_ALGORITHM TERM CI
"""


@pytest.mark.parametrize("name", SECRET.split())
def test_a_name_that_says_so_holds_a_secret(name):
    assert holds_secret(name, "x")


@pytest.mark.parametrize("name", OPEN.split())
def test_an_ordinary_name_holds_none(name):
    assert not holds_secret(name, "/usr/bin:x")


@pytest.mark.parametrize(
    "value",
    ["postgres://me:pw@db/app", "redis://:pw@h:6379/0", "https://a:b@host/x", "amqp://u:p%40@h",
     "host=db user=me password=pw", "Server=a;User Id=b;Pwd=c;", "AccountName=a;AccountKey=bbb==",
     "https://h/x?sig=abc&x=1", "-----BEGIN OPENSSH PRIVATE KEY-----\nx", "jdbc:a://h/?password=x"],
)  # fmt: skip
def test_a_value_with_a_password_in_it_is_a_secret(value):
    assert holds_secret("THING", value)


@pytest.mark.parametrize(
    "value",
    ["https://example.org:8080/a@b", "http://localhost:3000", "user@host", "git@host:a/b.git",
     "a=b", "-Dtokens=3 x", "postgres://db/app", "https://me@host/x", "key=value", "compass=1"],
)  # fmt: skip
def test_an_ordinary_value_is_none(value):
    assert not holds_secret("THING", value)


def test_a_proxy_keeps_its_password_since_nothing_is_reached_without():
    assert not holds_secret("HTTPS_PROXY", "http://me:pw@proxy:8080")


@given(st.text(), st.text())
def test_any_variable_has_an_answer(name, value):
    assert holds_secret(name, value) in (True, False)


@pytest.mark.parametrize("part", ["://a:", "password =", "://", "sig=", ";pwd ", "A", "_a"])
def test_a_long_value_or_name_costs_a_bounded_look(part):
    assert holds_secret("x", part * 200_000) in (True, False)
    assert holds_secret(part * 2_000, "") in (True, False)
