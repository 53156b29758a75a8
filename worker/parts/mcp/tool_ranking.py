"""Which tools fit a query best: BM25 over names, descriptions and parameters. No I/O."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from typing import cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.protocol.mcp import McpTool

MAX_QUERY = 1_000  # characters
_MAX_WORDS = 400  # of one tool
_SATURATION, _BY_LENGTH = 1.5, 0.75  # BM25's k1 and b
_WORD = re.compile(r"[a-z]+|[0-9]+|[^\W\d_a-z]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


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


def _scores(texts: list[list[str]], asked: Iterable[str]) -> list[float]:
    """Okapi BM25 of each text, with Lucene's document frequencies: none counts below 0."""
    counts = [Counter(words) for words in texts]
    mean = sum(map(len, texts)) / len(texts)
    damping = [_SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * len(words) / mean) for words in texts]
    scores = [0.0] * len(texts)
    for word in asked:
        holding = [index for index, count in enumerate(counts) if word in count]
        rarity = log(1 + (len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
        for index in holding:
            times = counts[index][word]
            scores[index] += rarity * times / (times + damping[index])
    return scores


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
