"""`/SERVER:PROMPT WORDS`: which texts call a prompt, and what an agent reads of one."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.base.prompt_call import PromptCall, parse_prompt_call
from swarm.supervisor.clients.cli.base.mcp_prompts import render_prompt


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("/docs:review", PromptCall("docs", "review")),
        ("/docs:review a.py 'two words'\n", PromptCall("docs", "review", ("a.py", "two words"))),
        ("/docs:review file=a.py", PromptCall("docs", "review", ("file=a.py",))),
        (" /docs:review", None),
        ("/docs", None),
        ("/docs:", None),
        ("/etc/hosts:12 is wrong", None),
        ("/a:b/c is a path", None),
        ("say /docs:review", None),
    ],
)
def test_only_a_text_that_begins_with_it_calls_a_prompt(text, call):
    assert parse_prompt_call(text) == call


def test_quotes_that_do_not_end_are_an_error():
    with pytest.raises(UsageError, match="quotation"):
        parse_prompt_call("/docs:review 'a")


def test_the_text_says_whose_it_is_and_steers_no_terminal():
    call = PromptCall("docs", "re\x1b[31mview")
    text = render_prompt(call, (("user", "Look\x1b[2J here."), ("assistant", "I look.")))
    assert text.startswith("[Text of the prompt `re")
    assert "of the MCP server `docs`, sent by the person]" in text
    assert "(assistant:) I look." in text
    assert "\x1b" not in text


def test_a_prompt_without_words_is_an_error():
    with pytest.raises(UsageError, match="is empty"):
        render_prompt(PromptCall("docs", "review"), (("user", "  "),))
