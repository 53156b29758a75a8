"""Rich's segments as prompt_toolkit's fragments. Pure."""

from functools import lru_cache

from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.segment import Segment
from rich.style import Style


def to_fragments(line: list[Segment]) -> StyleAndTextTuples:
    """One line; the text is cleaned already."""
    return [(style_words(cell.style), cell.text) for cell in line]


@lru_cache(maxsize=64)
def style_words(style: Style | None) -> str:
    """A style in prompt_toolkit's words; only what the console's theme uses."""
    if style is None:
        return ""
    words = [
        name
        for name, is_set in (
            ("bold", style.bold), ("dim", style.dim), ("reverse", style.reverse),
        )
        if is_set
    ]  # fmt: skip
    if style.color is not None:
        words.append(f"ansi{style.color.name}")
    return " ".join(words)
