"""A sample of every secret that the rules know, built piece by piece: no file of ours holds one."""

import itertools
import re
from typing import NamedTuple

from swarm.mailbox.base.redact_rules import load_secret_rules

MIXED = "a1B2c3D4e5F6g7H8i9J0kLmNoPqR"


class Sample(NamedTuple):
    """`secret` must never be seen in `text`."""

    rule: str
    text: str
    secret: str
    short: bool = False  # its beginning alone is part of ordinary words


def fill(allowed, size):
    """So many characters of a class, as mixed as it allows."""
    inside = re.compile(f"[{allowed}]")
    letters = [sign for sign in MIXED + MIXED.upper() if inside.match(sign)]
    return "".join(itertools.islice(itertools.cycle(letters), size))


def token_samples():
    for rule in load_secret_rules().tokens:
        for begin in rule.begins:
            body = fill(rule.body, rule.least)
            if rule.name == "jwt":
                body = f"{fill('A-Za-z0-9', 20)}.{begin}{fill('A-Za-z0-9', 20)}.{MIXED}"
            elif rule.parts:
                body = f"{fill('A-Za-z0-9', 20)}.{fill('A-Za-z0-9', 40)}"
            yield Sample(rule.name, begin + body, begin + body, short=len(begin) < 5)


def value_samples():
    word = "Hx7" + fill("A-Za-z0-9", 12)
    long = fill("A-Za-z0-9", 44)
    for name in load_secret_rules().names:
        yield Sample("variable", f"MY_{name}={word}", word)
        yield Sample("variable", f'MY_{name}="two words {word}"', word)
        yield Sample("variable", f"MY_{name}: {word}", word)
        yield Sample("variable", f'"MY_{name}": "{word}"', word)
        yield Sample("variable", f"MY_{name} = '{word}'", word)
    for name in ("PGPASSWORD", "MYSQL_PWD", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN", "JWT_SECRET"):
        yield Sample("variable", f"{name}={word}", word)
    for scheme in ("postgres", "mysql", "redis", "amqp", "mongodb+srv", "https"):
        yield Sample("url-password", f"{scheme}://me:{word}@db.example.com:5432/app", word)
        yield Sample("url-password", f"{scheme}://:{word}@db.example.com/0", word)
        yield Sample("url-password", f"{scheme}://me:{word}@x:{word}@db/0", word)
    yield Sample("url-token", f"https://{long}@git.example.com/x.git", long)
    yield Sample("url-token", f"https://{long}:x-oauth-basic@git.example.com/x.git", long)
    yield Sample("aws-secret", f"aws_secret_access_key = {long}", long)
    yield Sample("aws-secret", f'"SecretAccessKey": "{long}"', long)
    yield Sample("authorization", f"Authorization: Basic {word}=", word)
    yield Sample("authorization", f'"authorization": "token {word}"', word)
    yield Sample("bearer", f"-H 'Bearer {long}'", long)
    yield Sample("header", f"x-api-key: {word}", word)
    yield Sample("header", f"private-token: {word}", word)
    yield Sample("url-query", f"https://a.example/b?x=1&access_token={word}&y=2", word)
    yield Sample("url-query", f"https://a.example/b?X-Amz-Signature={long}", long)
    yield Sample("azure", f"AccountName=a;AccountKey={long}==;B=c", long)
    yield Sample("npm", f"//registry.example/:_authToken={word}", word)
    yield Sample("webhook", f"https://hooks.slack.com/services/{long}", long)
    yield Sample("webhook", f"https://discord.com/api/webhooks/123456789/{long}", long)
    yield Sample("telegram", f"12345678:AA{long}", long)


def key_samples():
    for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "):
        lines = "\n".join(f"{MIXED}{MIXED}{number}" for number in range(3))
        ends = f"{kind}PRIVATE KEY-----"
        yield Sample("private-key", f"-----BEGIN {ends}\n{lines}\n-----END {ends}", MIXED)
        yield Sample("private-key", f"-----BEGIN {ends}\\n{lines}\\n-----END {ends}", MIXED)
        yield Sample("private-key", f"-----BEGIN {ends}\n{lines}", MIXED)


SAMPLES = (*token_samples(), *value_samples(), *key_samples())
