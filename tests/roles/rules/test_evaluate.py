"""Rule files as text: what each call means, and what its author reads when it is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base import host_patterns
from swarm.mailbox.protocol.rules import HostExecutable, NetworkRule, PrefixRule, RuleSet
from swarm.roles.rules.evaluate import MAX_RULES, RuleFileBroken, evaluate, evaluate_files
from swarm.roles.rules.evaluator_client import CollectedRules, EvaluationRequest
from swarm.roles.rules.rule_parsing import RuleRefused, normalize_rule_host


def rules_of(*texts) -> RuleSet:
    collected = CollectedRules()
    for at, text in enumerate(texts):
        collected = evaluate(text, at, collected)
    return collected.rules()


def complaint(text) -> tuple[str, int | None]:
    with pytest.raises(RuleFileBroken) as caught:
        rules_of(text)
    return caught.value.what, caught.value.line


def test_a_file_says_prefixes_hosts_and_executables():
    text = """
prefix_rule(pattern=["git", ["pull", "fetch"]], match=["git pull x", ["git", "fetch"]])
prefix_rule(["rm"], "forbidden", None, ["ls rm"], "no")
network_rule(host="API.Example.com.:443", protocol="https_connect", decision="forbidden")
host_executable(name="git", paths=["/usr/bin/git", "/opt/git", "/usr/bin/git"])
"""
    assert rules_of(text) == RuleSet(
        prefixes=(
            PrefixRule(pattern=(("git",), ("pull", "fetch"))),
            PrefixRule(pattern=(("rm",),), decision="forbidden", justification="no"),
        ),
        network=(NetworkRule(host="api.example.com", protocol="https", decision="deny"),),
        executables=(HostExecutable(name="git", paths=("/usr/bin/git", "/opt/git")),),
    )


def test_loops_functions_and_f_strings_are_part_of_the_language():
    text = """
def both(program):
    for verb in ["ci", "install"]:
        prefix_rule(pattern = [program, verb], justification = f"{program} runs {verb}")

both("npm")
if True:
    both("yarn")
"""
    found = rules_of(text).prefixes
    assert [(one.pattern[0][0], one.justification) for one in found] == [
        ("npm", "npm runs ci"),
        ("npm", "npm runs install"),
        ("yarn", "yarn runs ci"),
        ("yarn", "yarn runs install"),
    ]


def test_files_accumulate_and_a_later_host_executable_replaces():
    first = 'prefix_rule(pattern=["a"])\nhost_executable(name="a", paths=["/x/a"])'
    second = 'prefix_rule(pattern=["a"], decision="prompt")\nhost_executable(name="a", paths=[])'
    rules = rules_of(first, second)
    assert [one.decision for one in rules.prefixes] == ["allow", "prompt"]
    assert rules.executables == (HostExecutable(name="a", paths=()),)


BROKEN = [
    ("prefix_rule(pattern=[])", "invalid pattern element: pattern cannot be empty"),
    ('prefix_rule(pattern=["a", []])',
     "invalid pattern element: pattern alternatives cannot be empty"),
    ("prefix_rule(pattern=[1])",
     "invalid pattern element: pattern element must be a string or list of strings (got int)"),
    ('prefix_rule(pattern=[["a", None]])',
     "invalid pattern element: pattern alternative must be a string (got NoneType)"),
    ('prefix_rule(pattern="ls")', "invalid pattern element: pattern must be a list (got string)"),
    ('prefix_rule(pattern=["a"], decision="maybe")', "invalid decision: maybe"),
    ('prefix_rule(pattern=["a"], justification=" ")',
     "invalid rule: justification cannot be empty"),
    ('prefix_rule(pattern=["a"], match=[""])',
     "invalid example: example cannot be an empty string"),
    ('prefix_rule(pattern=["a"], match=[[]])', "invalid example: example cannot be an empty list"),
    ('prefix_rule(pattern=["a"], match=["\'"])',
     "invalid example: example string has invalid shell syntax"),
    ('prefix_rule(pattern=["a"], not_match=[["a", 1]])',
     "invalid example: example tokens must be strings (got int)"),
    ('prefix_rule(pattern=["a"], match=["b", "a"])',
     "expected every example to match at least one rule. rules: [allow: a]; "
     "unmatched examples: [b]"),
    ('prefix_rule(pattern=["a", ["b", "c"]], not_match=["a c d"])',
     "expected example to not match rule `allow: a (b|c)`: a c d"),
    ('prefix_rule(pattern=["a"], match=["b"], not_match=["a"])',
     "expected example to not match rule `allow: a`: a"),
    ('host_executable(name="", paths=[])', "invalid rule: host_executable name cannot be empty"),
    ('host_executable(name="a/b", paths=[])',
     "invalid rule: host_executable name must be a bare executable name (got a/b)"),
    ('host_executable(name="a", paths=["bin/a"])',
     "invalid rule: host_executable paths must be absolute (got bin/a)"),
    ('host_executable(name="a", paths=["/bin/b"])',
     "invalid rule: host_executable path `/bin/b` must have basename `a`"),
    ('network_rule(host="a.com", protocol="ftp", decision="allow")',
     "invalid rule: network_rule protocol must be one of http, https, socks5_tcp, socks5_udp "
     "(got ftp)"),
    ('network_rule(host="*.a.com", protocol="http", decision="allow")',
     "invalid rule: network_rule host must be a specific host; wildcards are not allowed"),
    ('network_rule(host="a.com", protocol="http", decision="maybe")', "invalid decision: maybe"),
    ('load("other.rules", "x")', "`load` is not allowed in this dialect"),
    ('fail("not here")', "fail: not here"),
    ("def f():\n    f()\nf()", "Starlark call stack overflow"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_a_wrong_call_says_what_is_wrong(text, expected):
    assert complaint(text)[0] == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\n\nprefix_rule(pattern=[])", 3),
        ("x = (\n", 1),
        ("x = 1\nunknown", 2),
        ('def f():\n    prefix_rule(pattern=["a"], decision="b")\n\nf()', 2),
        ('x = 1\nprefix_rule(\n    pattern=["a"],\n    match=["b"])', 2),
    ],
)
def test_an_error_names_the_line_of_its_author(text, line):
    assert complaint(text)[1] == line


def test_examples_see_executables_that_the_file_names_later():
    text = """
prefix_rule(pattern=["git"], match=["/usr/bin/git x"], not_match=["/tmp/git x"])
host_executable(name="git", paths=["/usr/bin/git"])
"""
    assert len(rules_of(text).prefixes) == 1


def test_a_loop_cannot_make_rules_without_end():
    text = f'for i in range({MAX_RULES + 1}):\n    prefix_rule(pattern=["a"])'
    assert complaint(text)[0] == f"invalid rule: more than {MAX_RULES} rules"


def test_the_first_broken_file_is_named_and_nothing_of_the_others_is_kept():
    reply = evaluate_files(
        EvaluationRequest(texts=('prefix_rule(pattern=["a"])', "\nx", "prefix_rule()"))
    )
    assert (reply.broken_at, reply.line, reply.collected) == (1, 2, CollectedRules())


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (" Example.COM. ", "example.com"),
        ("example.com:443", "example.com:443"),
        ("[::1]:80", "[::1]:80"),
        ("::1", "::1"),
        ("0:0::1", "::1"),
        ("a_b.c-d.example", "a_b.c-d.example"),
        ("10.0.0.1:8080", "10.0.0.1:8080"),
    ],
)
def test_a_host_has_one_normal_form(raw, expected):
    assert normalize_rule_host(raw) == expected
    assert normalize_rule_host(expected) == host_patterns.normalize_pattern(expected) == expected


@pytest.mark.parametrize(
    "raw",
    [
        "",
        " . ",
        "http://a",
        "a/b",
        "a?b",
        "a#b",
        "*",
        "*.a",
        "a b",
        "[::1",
        "[::1]x",
        "a\u200b",
        "bücher.de",
        "-a",
        "a..b",
    ],
)
def test_what_names_no_single_host_is_refused(raw):
    with pytest.raises(RuleRefused, match="invalid rule: network_rule host"):
        normalize_rule_host(raw)


PIECES = st.sampled_from(
    ["prefix_rule(", "network_rule(", "host_executable(", "pattern=", "decision=", "match=", "[",
     "]", ")", ",", '"a"', '"allow"', "None", "True", "\n", "    ", "def f():", "f()", "lambda: 1",
     "{}", "()", "f'{", "#", "\\", "'", '"""', "x = ", "fail(", "\0", "\ufeff", "é"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join)))
def test_no_text_does_anything_but_make_rules_or_a_complaint(text):
    try:
        found = rules_of(text)
    except RuleFileBroken as error:
        assert error.what
        assert error.line is None or error.line >= 1
    else:
        assert all(one.pattern and all(one.pattern) for one in found.prefixes)
