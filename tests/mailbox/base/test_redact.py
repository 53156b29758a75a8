"""What is a secret is hidden wherever it stands and however it is written; all else stays."""

import base64
import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.secret_samples import SAMPLES, fill
from swarm.mailbox.base.redact import REDACTED, Redactor, unhidden_keys
from swarm.mailbox.base.redact_rules import load_secret_rules, secret_matcher

ROOT = Path(__file__).parents[3]
PLAIN = Redactor(())
KEYS = (
    "sentinel-7f3a9c-key",
    'quo"te\\back/slash',
    "it's & <odd> 100%",
    "ünïcode-schlüssel",
    "plainwordkey",
    fill("A-Za-z0-9", 64),
)
# Before a secret: whatever a program, a terminal, JSON in JSON or a URL puts there.
BEFORE = ("", " ", "\n", "\t", "=", '"', "'", ":", "\\n", "\\t", "\\\\n", "\x1b[0m", "\x1b[1;31m",
          "%0A", "%0a", "\\u000a", "(", "é", "\0", "-", "_", ".", "1.", "/")  # fmt: skip


def names(samples):
    return [f"{number}-{one.rule}" for number, one in enumerate(samples)]


@pytest.mark.parametrize("sample", SAMPLES, ids=names(SAMPLES))
def test_a_secret_of_every_rule_is_hidden_after_whatever_stands_before_it(sample):
    for before in BEFORE:
        cleaned = PLAIN.redact(f"before{before}{sample.text} after")
        assert sample.secret not in cleaned, repr(before)
        assert REDACTED in cleaned, repr(before)
        assert cleaned.startswith("before"), repr(before)
        assert sample.rule == "private-key" or cleaned.endswith(" after"), repr(before)


# As issuers write them: a rule that is lost or mistyped shows here.
_BODY = "a1B2c3D4e5F6g7H8i9J0" * 3
PUBLISHED = {
    "OpenAI": ("sk-" + "proj-", 40), "Anthropic": ("sk-" + "ant-api03-", 40),
    "GitHub": ("gh" + "p_", 36), "GitHub, fine-grained": ("github_" + "pat_", 60),
    "GitLab": ("gl" + "pat-", 20), "Stripe": ("sk_" + "live_", 24),
    "Stripe, restricted": ("rk_" + "live_", 24), "npm": ("np" + "m_", 36),
    "PyPI": ("py" + "pi-", 60), "Google's OAuth": ("ya" + "29.", 60),
    "Google": ("AI" + "za", 35), "Slack": ("xo" + "xb-", 24), "Hugging Face": ("h" + "f_", 34),
    "SendGrid": ("S" + "G." + _BODY[:22] + ".", 43), "Groq": ("gs" + "k_", 52),
}  # fmt: skip


@pytest.mark.parametrize("issuer", PUBLISHED)
@pytest.mark.parametrize("before", ["", "\n", "\t", "=", '"'], ids=repr)
def test_a_key_as_its_issuer_writes_it_is_hidden_whatever_the_rules_say(issuer, before):
    begins, length = PUBLISHED[issuer]
    key = begins + _BODY[:length]
    assert PLAIN.redact(f"one{before or ' '}{key}\n") == f"one{before or ' '}{REDACTED}\n"


@pytest.mark.parametrize(
    "line",
    [
        "PGPASSWORD=%s", "export MYSQL_PWD=%s", "DATABASE_URL=postgres://me:%s@db/app",
        "redis://:%s@localhost:6379/0", "Authorization: Bearer %s", "API_KEY: %s",
        "aws_secret_access_key = %s",
    ],
)  # fmt: skip
def test_a_value_that_is_named_as_a_secret_is_hidden_whatever_the_rules_say(line):
    value = "Hx7" + "passWord91" + _BODY[:27]
    assert value not in PLAIN.redact(line % value)


@pytest.mark.parametrize("sample", SAMPLES, ids=names(SAMPLES))
def test_what_is_hidden_is_counted_by_the_name_of_its_rule(sample):
    counts = Counter()
    PLAIN.redact(f"a {sample.text} b", counts)
    assert counts[sample.rule] >= 1


@given(
    st.sampled_from([one for one in SAMPLES if one.rule != "private-key"]),
    st.text(max_size=30),
    st.sampled_from(["", "\n", " ", "abc", "Z9", "é", "\\n"]),
)
@settings(max_examples=400)
def test_a_secret_with_a_beginning_of_its_own_is_hidden_after_any_text(sample, before, gap):
    if gap[-1:].isalnum() and sample.rule not in {one.name for one in load_secret_rules().tokens}:
        gap += " "  # a marker is a name: what joins it is another name
    assert sample.secret not in PLAIN.redact(f"{before}{gap}{sample.text}")


def test_one_bare_key_a_line_is_hidden_as_in_a_file_of_settings():
    lines = [one.text for one in SAMPLES if one.rule != "private-key"]
    cleaned = PLAIN.redact("\n".join(lines)).split("\n")
    assert len(cleaned) == len(lines)
    assert all(REDACTED in line for line in cleaned)


def forms(key):
    data = key.encode()
    yield key
    yield json.dumps(key)[1:-1]
    yield json.dumps(key, ensure_ascii=False)[1:-1]
    yield json.dumps(json.dumps({"key": key}))
    yield quote(key, safe="")
    yield data.hex()
    yield data.hex().upper()
    for lead in (b"", b"u", b"u:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(lead + data + b"!").decode()


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_hidden_in_every_form(key):
    redactor = Redactor(KEYS)
    for form in forms(key):
        cleaned = redactor.redact(f"a{form}b")
        assert REDACTED in cleaned
        assert key not in cleaned
        assert len(cleaned) <= len(REDACTED) + 24 or "key" in cleaned, (form, cleaned)


secrets = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=8, max_size=40
).filter(lambda text: text.strip() == text and REDACTED not in text and text not in REDACTED)


@given(secrets, st.text(max_size=20), st.text(max_size=20))
@example("aaaaaaaaA", "aaaa", "aaaa")
@settings(max_examples=300)
def test_any_key_is_hidden_wherever_it_stands(key, before, after):
    redactor = Redactor([key])
    cleaned = redactor.redact(before + key + after)
    assert key not in cleaned.replace(REDACTED, "\0") or key in load_secret_rules().placeholders
    encoded = base64.b64encode((before + key + after).encode()).decode()
    core = base64.b64encode(key.encode()).decode().rstrip("=")[:-1]
    if len(before.encode()) % 3 == 0:
        assert core not in redactor.redact(encoded)


@pytest.mark.parametrize(
    ("key", "hidden"),
    [("test", False), ("a", False), ("", False), ("ollama", False), ("banana", False),
     ("EMPTY", False), ("changeme", False), ("not-needed", False), ("Not-Needed", False),
     ("a1b2c3", True), ("bananas", False), ("wordkeyx", True), ("Banana", True)],
)  # fmt: skip
def test_a_short_key_or_an_ordinary_word_blanks_out_nothing(key, hidden):
    text = f"one {key} two"
    assert (Redactor([key]).redact(text) != text) is hidden


def test_a_key_that_is_not_hidden_is_told_and_a_placeholder_is_none():
    keys = {"A": "test", "B": "ollama", "C": "a-real-key-1", "D": "banana", "E": " "}
    assert unhidden_keys(keys) == ["A", "D"]


@pytest.mark.parametrize(
    "line",
    [
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty.txt",
        "550e8400-e29b-41d4-a716-446655440000",
        "0199f5a0-1111-7aaa-8bbb-123456789abc /root/worker-2",
        "numpy==2.1 --hash=sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "-rw-r--r-- 1 user user 1234 Jan  1 12:00 task-force-risk-assessment-2024.md",
        "the reliable-5f4dcc3b5aa765d61d8327deb882cf99 and disk-usage-report-of-2024-and-2025",
        "sk-estimator-doc-link fitted, sk-toggleable__content, sk-ipped words",
        "token sk- and hf_ and ghp_ are prefixes; AKIA begins the ids of AWS",
        "npm_config_registry=https://registry.example.org/ npm_package_dependencies_left_pad",
        "http://localhost:8080/a@b https://host:443/@scope/pkg ssh://git@github.com/org/repo",
        "git@github.com:org/repo.git https://user@host/repo https://example.com:8443?x=a@b",
        "DATABASE_URL=postgres://$DB_USER:$DB_PASSWORD@db/app postgres://${U}:${P}@h/d",
        'TOKEN=$(cat token) PASSWORD="$PASSWORD" SECRET=${SECRET:?} KEY_FILE=/etc/key',
        "API_KEY = os.environ['API_KEY']; token: Token = read(TOKEN)",
        "MAX_TOKENS=4096 SORT_KEY=created_at PUBLIC_KEY=x PRIMARY_KEY=id",
        "Authorization: Bearer <token>, Authorization: Bearer $TOKEN; bearer authentication",
        "class PasswordField: password = forms.CharField(widget=PasswordInput)",
        "-----BEGIN PRIVATE KEY----- is how the header looks, and then comes the body",
        "-----BEGIN CERTIFICATE-----\nMIIB" + "a1B2" * 20 + "\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "a1B2" * 8 + " me@host",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        '"integrity": "sha512-' + "a1B2/+" * 14 + '=="',
        "gAAAAAB" + "Xy9_-" * 300,
    ],
)
def test_ordinary_lines_stay_as_they_are(line):
    assert PLAIN.redact(line) is line
    escaped = json.dumps(line)
    assert PLAIN.redact(escaped) is escaped


def test_our_own_sources_and_pages_stay_as_they_are():
    folders = [
        ROOT / name for name in ("mailbox", "roles", "worker", "supervisor", "docs", "examples")
    ]
    found = [
        (path.relative_to(ROOT), line)
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in {".py", ".md", ".toml", ".json"} and path.name != "secret_rules.toml"
        for line in path.read_text("utf-8").splitlines()
        if PLAIN.redact(line) is not line
    ]
    assert found == []


def test_what_programs_list_stays_as_it_is():
    for command in (
        [sys.executable, "-m", "pip", "list"],
        ["ls", "-lR", str(Path(json.__file__).parent)],
        [sys.executable, "-c", "import sys; print('\\n'.join(sorted(sys.modules)))"],
    ):
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        assert PLAIN.redact(text) is text, command


def test_each_rule_has_a_name_and_the_file_names_its_source():
    text = (ROOT / "mailbox" / "base" / "secret_rules.toml").read_text("utf-8")
    assert "docs.github.com" in text.split("[[tokens]]")[0]
    assert "gitleaks" in text.split("[[tokens]]")[0]
    tomllib.loads(text)
    rules = load_secret_rules()
    assert {one.name for one in rules.tokens} | {one.name for one in rules.after} <= {
        one.rule for one in SAMPLES
    }


HINTS = sorted({hint for rule in load_secret_rules().after for hint in rule.hints})


@given(st.lists(st.sampled_from(HINTS), max_size=3), st.integers(0, 6), st.text(max_size=5))
def test_no_hint_is_overlooked_where_two_overlap(parts, less, between):
    text = between.join(parts)[less:]
    assert {hint for hint in HINTS if hint in text} <= secret_matcher()._hints.words_in(text)
    stands = any(hint in text for hint in HINTS)
    assert not stands or secret_matcher().may_match(text.encode("utf-8", "replace"))


@given(st.text(max_size=200))
def test_cleaning_twice_changes_nothing_more(text):
    once = Redactor(KEYS).redact(text)
    assert Redactor(KEYS).redact(once) == once


@given(
    st.lists(st.sampled_from([one.text for one in SAMPLES] + list(KEYS) + ["x", " "]), max_size=5)
)
@settings(max_examples=200)
def test_secrets_side_by_side_are_all_hidden(parts):
    text = " ".join(parts)
    cleaned = Redactor(KEYS).redact(text)
    assert not any(key in cleaned for key in KEYS)
    assert not any(
        one.secret in cleaned for one in SAMPLES if one.rule != "variable" and one.text in parts
    )


def test_hostile_text_takes_no_time_that_grows_faster_than_it_does():
    """Bounded by the deadline of the whole run of tests: a quadratic search would take minutes."""
    for piece in ("://a:", "sk-", "TOKEN=", "-----BEGIN PRIVATE KEY-----\n", "eyJaaaaaaaa.", "a@",
                  "Bearer ", "ghp_", "xox", "_", "1", "=", "\\", "PASSWORD: "):  # fmt: skip
        PLAIN.redact(piece * (200_000 // len(piece)))
