"""How a typed line is read: a command, words, or an error that says what to type."""

import re
from typing import get_args

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.control import AgentView, ChangeSettings
from swarm.mailbox.protocol.settings import EFFORTS, SandboxMode
from swarm.mailbox.protocol.values.limits import AskForApproval
from swarm.supervisor.clients.chat.chat_commands import help_lines, rights_change, swarm_arguments
from swarm.supervisor.clients.chat.slash_commands import (
    APPROVAL_WORDS,
    EFFORT_WORDS,
    SANDBOX_WORDS,
    SLASH_COMMANDS,
    SlashCall,
    argument_at,
    matching_commands,
    parse_shell,
    parse_slash,
)
from swarm.supervisor.clients.cli.base.lazy_commands import LAZY_COMMANDS


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("hello", None),
        (" /help", None),
        ("/etc/hosts is wrong", None),
        ("/", None),
        ("/help\nand more", None),
        ("/help", SlashCall("help")),
        ("?", SlashCall("help")),
        ("? really", None),
        ("/model  gpt-5 ", SlashCall("model", ("gpt-5",))),
        ("/permissions read-only never", SlashCall("permissions", ("read-only", "never"))),
        ("/review look at the tests first", SlashCall("review", ("look at the tests first",))),
        ("/review", SlashCall("review")),
        ("/exit", SlashCall("quit")),
        ("/clear", SlashCall("new")),
        ("/plan first look", SlashCall("plan", ("first look",))),
    ],
)
def test_a_line_is_a_command_only_if_it_begins_with_one(line, call):
    assert parse_slash(line) == call


@pytest.mark.parametrize(
    ("line", "command"),
    [("!ls -l", "ls -l"), ("! make", "make"), ("!", None), (" !ls", None), ("so !ls", None)],
)
def test_a_line_with_an_exclamation_mark_is_a_command_of_the_persons_own(line, command):
    assert parse_shell(line) == command


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/modle x", "did you mean /model?"),
        ("/zzz", "/help lists all"),
        ("/help me", "/help takes fewer words: /help"),
        ("/model a b", "/model takes fewer words: /model [NAME]"),
    ],
)
def test_a_wrong_command_says_what_to_type(line, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        parse_slash(line)


@pytest.mark.parametrize(
    ("typed", "names"),
    [("mo", ["model", "memory"]), ("re", ["review", "resume"]), ("diff", ["diff"]), ("xyz", [])],
)
def test_commands_that_begin_with_the_letters_come_first(typed, names):
    assert [one.name for one in matching_commands(typed)] == names


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (SlashCall("agents"), ["show", "1a2b"]),
        (SlashCall("diff", ("scout",)), ["diff", "1a2b", "scout"]),
        (SlashCall("undo"), ["undo", "1a2b"]),
        (SlashCall("rollback"), ["rollback", "1a2b", "/root/a", "--turns", "1"]),
        (SlashCall("fork"), ["fork", "1a2b"]),
        (SlashCall("name", ("parser",)), ["name", "1a2b", "parser"]),
        (SlashCall("review"), ["review", "--run", "1a2b", "--agent", "/root/a", "--uncommitted"]),
        (SlashCall("goal"), ["goal", "1a2b"]),
        (SlashCall("goal", ("pause",)), ["goal", "1a2b", "pause"]),
        (
            SlashCall("goal", ('It works --verify "make test"',)),
            ["goal", "1a2b", "set", "It", "works", "--verify", "make test"],
        ),
        (SlashCall("tools"), ["roles", "explain", "explorer"]),
    ],
)
def test_a_command_is_its_twin_on_the_command_line(call, arguments):
    agent = AgentView(path="/root/a", role="explorer")
    assert swarm_arguments(call, "1a2b", agent) == arguments
    assert arguments[0] in LAZY_COMMANDS


@pytest.mark.parametrize("turns", ["0", "-1", "many", "²"])
def test_a_number_of_turns_that_is_none_is_refused(turns):
    with pytest.raises(UsageError, match="/rollback 2"):
        swarm_arguments(SlashCall("rollback", (turns,)), "1a2b", None)


def test_the_help_names_every_command():
    text = "\n".join(str(line) for line in help_lines())
    assert all(f"/{one.name}" in text for one in SLASH_COMMANDS)


@pytest.mark.parametrize(
    ("before", "typed", "words"),
    [
        ("/effort h", "h", ("high",)),
        ("/permissions read-only on-", "on-", ("on-failure", "on-request")),
        ("/undo /root/a", "/root/a", ("/root/ann",)),
        ("/effort high ", "", ()),
        ("/effort", "", ()),
        ("/no-such x", "", ()),
        ("words /effort ", "", ()),
        ("/review the te", "", ()),
    ],
)
def test_arguments_of_commands_are_completed(before, typed, words):
    found = argument_at(before, {"undo": ("/root", "/root/ann", "/root/bob")})
    assert (found.typed if words else "", found.words) == (typed if words else "", words)


def test_completion_offers_the_words_of_the_protocol():
    assert EFFORT_WORDS == EFFORTS
    assert get_args(SandboxMode) == SANDBOX_WORDS
    assert set(APPROVAL_WORDS) == set(get_args(AskForApproval))


def test_rights_are_named_in_any_order():
    change = rights_change(SlashCall("permissions", ("never", "read-only")), "/root/a")
    assert change == ChangeSettings(agent="/root/a", sandbox="read-only", approval="never")
    with pytest.raises(UsageError, match="there are read-only, workspace-write"):
        rights_change(SlashCall("permissions", ("all",)), "/root")
