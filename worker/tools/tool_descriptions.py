"""The tools' descriptions, from the `.md` files beside this one; read once, at import."""

from pathlib import Path

_TEXTS = {
    path.stem: path.read_text(encoding="utf-8").strip()
    for path in sorted(Path(__file__).parent.glob("*.md"))
}


def description_of(name: str) -> str:
    """What models are told of the tool. Raises KeyError for a tool without a text."""
    return _TEXTS[name]
