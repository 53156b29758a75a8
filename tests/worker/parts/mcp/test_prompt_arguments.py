"""Words that a person typed become the arguments that a prompt declares."""

import mcp_types
import pytest

from swarm.worker.parts.mcp.prompt_arguments import PromptMisused, match_arguments

REVIEW = mcp_types.Prompt(
    name="review",
    arguments=[
        mcp_types.PromptArgument(name="file", required=True),
        mcp_types.PromptArgument(name="focus"),
    ],
)
PLAIN = mcp_types.Prompt(name="plain")


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (("a.py",), {"file": "a.py"}),
        (("file=a.py",), {"file": "a.py"}),
        (("a.py", "speed"), {"file": "a.py", "focus": "speed"}),
        (("focus=speed", "a.py"), {"file": "a.py", "focus": "speed"}),
        (("file=a.py", "all", "of", "it"), {"file": "a.py", "focus": "all of it"}),
        (("x=1",), {"file": "x=1"}),
        (("file=a=b",), {"file": "a=b"}),
    ],
)
def test_words_fill_declared_arguments(words, arguments):
    assert match_arguments("review", words, [PLAIN, REVIEW]) == arguments


@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("review", (), "needs file: review file=… [focus=…]"),
        ("review", ("a", "b", "c"), "takes fewer words"),
        ("plain", ("a",), "takes fewer words"),
        ("reviw", (), "did you mean `review`?"),
        ("other", (), "it has: plain, review"),
    ],
)
def test_a_misused_prompt_says_what_it_takes(name, words, says):
    with pytest.raises(PromptMisused) as failed:
        match_arguments(name, words, [PLAIN, REVIEW])
    assert says in str(failed.value)
