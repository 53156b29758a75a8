"""The tools' descriptions, from the `.md` files beside this one; read once, at import."""

from pathlib import Path

_TEXTS = {
    path.stem: path.read_text(encoding="utf-8").strip()
    for path in sorted(Path(__file__).parent.glob("*.md"))
}


def description_of(name: str) -> str:
    """Return the tool's description for models. Raises KeyError for a tool without one."""
    return _TEXTS[name]
