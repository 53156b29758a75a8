"""What a text about a command, a path or a program quotes of it: its beginning. Pure."""

MOST_QUOTED = 200  # characters


def quote_head(text: str) -> str:
    """The first `MOST_QUOTED` characters, and how many more there are."""
    over = len(text) - MOST_QUOTED
    return text if over <= 0 else f"{text[:MOST_QUOTED]}… ({over:,} more characters)"
