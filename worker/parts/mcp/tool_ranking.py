"""Which tools fit a query best: BM25 over names, descriptions and parameters.

The library needs numpy, so both are imported with the first search, in the hub's process alone.
"""

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.protocol.mcp import McpTool

MAX_QUERY = 1_000  # characters
_MAX_WORDS = 400  # of one tool
_WORD = re.compile(r"[a-z]+|[0-9]+|[^\W\d_a-z]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class _Index(Protocol):
    @property
    def index(self) -> Callable[[list[list[str]], bool, bool], None]:
        """Of texts; whether it may be empty, and whether it shows its progress."""
        ...

    @property
    def get_scores(self) -> Callable[[list[str]], Iterable[float]]: ...


class _Library(Protocol):
    """What is used of `bm25s`, which has no types."""

    def BM25(self, *, method: str) -> _Index: ...


def rank_tools(query: str, tools: Sequence[McpTool], *, limit: int) -> tuple[McpTool, ...]:
    """The tools that share a word with the query, best first, at most `limit`.

    Equal ones stay in their order, so that the same search gives the same bytes.
    """
    texts = [words_of(tool_text(one))[:_MAX_WORDS] for one in tools]
    known = {word for words in texts for word in words}
    asked = [word for word in dict.fromkeys(words_of(query[:MAX_QUERY])) if word in known]
    if not asked:
        return ()
    scores = _scores(texts, asked)
    fits = [index for index, words in enumerate(texts) if not set(asked).isdisjoint(words)]
    best = sorted(fits, key=lambda index: (-scores[index], index))[:limit]
    return tuple(tools[index] for index in best)


def _scores(texts: list[list[str]], asked: list[str]) -> list[float]:
    library = cast("_Library", importlib.import_module("bm25s"))  # takes half a second
    index = library.BM25(method="lucene")
    index.index(texts, True, False)  # without a picture of its progress
    return [float(score) for score in index.get_scores(asked)]


def words_of(text: str) -> list[str]:
    """The words of a text or a name: `getUser_by2` has get, user, by and 2."""
    return [_singular(word) for word in _WORD.findall(_HUMP.sub(" ", text).lower())]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def tool_text(tool: McpTool) -> str:
    """What is searched of a tool. Its name counts twice."""
    name = f"{tool.server} {tool.tool}"
    return f"{name} {name} {tool.description} {' '.join(_parameter_texts(tool.parameters))}"


def _parameter_texts(schema: bytes) -> list[str]:
    try:
        table = cast("dict[str, object]", decode_json_as(schema, dict))
    except msgspec.DecodeError:
        return []
    given = table.get("properties")
    properties = cast("dict[str, object]", given) if isinstance(given, dict) else {}
    texts: list[str] = []
    for name, inner in properties.items():
        texts.append(name)
        if isinstance(inner, dict):
            told = cast("dict[str, object]", inner).get("description")
            texts += [told] if isinstance(told, str) else []
    return texts
