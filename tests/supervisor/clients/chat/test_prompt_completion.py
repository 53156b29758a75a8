"""`/SERVER:PROMPT` while it is typed: which text is one, and what may stand at the cursor."""

import pytest

from swarm.supervisor.clients.chat.prompt_completion import (
    KnownPrompt,
    PromptAt,
    ServerPrompts,
    is_typable,
    prompt_at,
)


class Prompts(ServerPrompts):
    """Knows the prompts of one server without asking it."""

    def known(self, server):
        told = [
            {
                "name": "review",
                "description": "Review \x1b[31mit",
                "arguments": [{"name": "file", "required": True}, {"name": "focus"}],
            },
            {"name": "re\x1b[31mport"},
            {"name": "two words"},
        ]
        import msgspec

        return msgspec.convert(told, tuple[KnownPrompt, ...]) if server == "docs" else ()


@pytest.mark.parametrize(
    ("before", "at"),
    [
        ("/docs:", PromptAt("docs", "")),
        ("/docs:re", PromptAt("docs", "re")),
        ("/docs:review ", PromptAt("docs", "review", "")),
        ("/docs:review file=a fo", PromptAt("docs", "review", "fo")),
        ("/docs", None),
        ("/:x", None),
        ("/a/b:c", None),
        (" /docs:", None),
        ("/docs:\nx", None),
    ],
)
def test_the_prompt_at_the_cursor(before, at):
    assert prompt_at(before) == at


@pytest.mark.parametrize(
    ("at", "offered"),
    [
        (PromptAt("docs", ""), ["review"]),
        (PromptAt("docs", "x"), []),
        (PromptAt("docs", "review", "f"), ["file=", "focus="]),
        (PromptAt("docs", "review", "fo"), ["focus="]),
        (PromptAt("other", ""), []),
    ],
)
def test_only_what_can_be_typed_is_offered_and_shown_clean(tmp_path, at, offered):
    found = list(Prompts(tmp_path, {}).completions(at))
    assert [one.text for one in found] == offered
    assert all("\x1b" not in f"{one.display}{one.display_meta}" for one in found)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a:b", "a=b", "a\x1bb", "x" * 300])
def test_names_that_could_mean_something_else_are_not_offered(name):
    assert not is_typable(name)
