"""Where the words of a call stand, and that no word becomes a command."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.markdown.markdown_discovery import FoundMarkdown
from swarm.roles.parts.commands.command_expansion import Expansion, expand_call, find_call
from swarm.roles.parts.commands.command_file import PromptCommand, parse_command, parse_commands

NOTE = (
    "\n\n[The outputs of the commands follow, each in a message of its own. One that is missing "
    "was not run.]"
)


def found(body: str, *, name: str = "a.md", root: str = "/p/.claude/commands") -> FoundMarkdown:
    return FoundMarkdown(path=f"{root}/{name}", root=root, scope="project", data=body.encode())


def command(body: str, *, root: str = "/p/.claude/commands") -> PromptCommand:
    return parse_command(found(body, root=root))


def expand(body: str, typed: str, *, root: str = "/p/.claude/commands") -> Expansion:
    call = find_call(typed, [command(body, root=root)])
    assert call is not None
    return expand_call(call)


@pytest.mark.parametrize(
    ("body", "typed", "text"),
    [
        ("Fix $ARGUMENTS.", "/a the door", "Fix the door."),
        ("Fix ${ARGUMENTS}.", "/a the door", "Fix the door."),
        ("$2 before $1", "/a 'one two' three", "three before one two"),
        ("$1|$3|$10", "/a x", "x||$10"),
        ("It costs $$5 and $HOME", "/a", "It costs $5 and $HOME"),
        ("Look.", "/a at the door", "Look.\n\nat the door"),
        ("Look at $1.", "/a don't", "Look at don't."),
        ("Look.", "/a\nand more\nlines", "Look.\n\nand more\nlines"),
        ("To $WHO", "/a WHO=me", "To me"),
    ],
)
def test_words_stand_where_the_file_has_their_places(body, typed, text):
    assert expand(body, typed).text == text


def test_a_prompt_needs_every_named_word():
    root = "/home/.codex/prompts"
    assert expand("$FILE for $WHO", '/a FILE="a b" WHO=me', root=root).text == "a b for me"
    assert expand("$FILE", "/prompts:a FILE=x", root=root).text == "x"
    with pytest.raises(UsageError, match=r"/a also takes WHO=…"):
        expand("$FILE for $WHO", "/a FILE=x", root=root)


def test_a_word_is_quoted_for_the_shell():
    done = expand("See !`git log $1 -- $2` and $HOME", "/a 'x; rm -rf /' src/x.py")
    assert done.lines == ("git log 'x; rm -rf /' -- src/x.py",)
    assert done.text == f"See [output 1] and $HOME{NOTE}"
    assert expand("!`echo $ARGUMENTS $HOME $$`", "/a a 'b c'").lines == ("echo a 'b c' $HOME $$",)


def test_a_word_that_a_quotation_would_not_hold_is_refused():
    assert expand('!`echo "$1"`', "/a plain").lines == ('echo "plain"',)
    with pytest.raises(UsageError, match="inside of quotation marks"):
        expand('!`echo "$1"`', "/a '$(id)'")


def test_words_bring_no_command_line_and_no_place():
    done = expand("Say $1 $2", "/a '!`id`' '$ARGUMENTS'")
    assert done == Expansion(text="Say !`id` $ARGUMENTS")


@given(st.lists(st.text("ab '\"$`;|&()\\!", min_size=1, max_size=8), min_size=1, max_size=3))
def test_every_word_reaches_the_shell_as_one(words):
    typed = "/a " + shlex.join(words)
    (line,) = expand("!`run $ARGUMENTS`", typed).lines
    assert shlex.split(line) == ["run", *words]


def test_mentioned_files_are_named_each_once():
    assert expand("Read (@src/x.py), @$1 and mail@home.", "/a b.md").files == (
        "src/x.py", "b.md",
    )  # fmt: skip


@pytest.mark.parametrize("typed", ["/etc/hosts is wrong", "a /a", "/b", "/a/b", "", "/", "/ab"])
def test_other_words_call_nothing(typed):
    assert find_call(typed, [command("x")]) is None


def test_the_first_of_a_name_counts_and_the_rest_is_said():
    first, second = found("one"), found("two", root="/home/commands")
    both = parse_commands([first, second, found("x", name="quit.md"), found("", name="e.md")],
                          taken=frozenset({"quit"}))  # fmt: skip
    assert [(one.name, one.body) for one in both.commands] == [("a", "one"), ("quit", "x")]
    assert [text.partition(": ")[2] for text in both.warnings] == [
        "/a is taken by /p/.claude/commands/a.md; this one is left out",
        "it has no text; this command is left out",
    ]
    (note,) = both.commands[1].warnings
    assert "/quit is a command of the conversation itself, which wins there" in note


def test_a_folder_and_a_plugin_stand_before_the_name_and_keys_without_effect_are_said():
    one = FoundMarkdown(
        path="/x/gh/pr.md", root="/x", scope="plugin", prefix="kit",
        data=b"---\nallowed-tools: Bash\nmodel: opus\nfoo: 1\n---\n# Review\n",
    )  # fmt: skip
    read = parse_command(one)
    assert (read.name, read.description) == ("kit:gh:pr", "Review")
    assert [text.split(":")[0] for text in read.warnings] == [
        "/x/gh/pr.md, line 2, allowed-tools", "/x/gh/pr.md, line 3, model",
        "/x/gh/pr.md, line 4, foo",
    ]  # fmt: skip


def test_a_command_file_with_blanks_in_its_name_is_called_without_them_and_that_is_said():
    read = parse_commands([found("x", name="fix the bug.md"), found("y", name="gh/pr (new).md")])
    assert [one.name for one in read.commands] == ["fix-the-bug", "gh:pr-new-"]
    assert "it is called /fix-the-bug" in read.commands[0].warnings[0]
