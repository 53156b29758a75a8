"""What an error says of a name that nobody knows: the nearest one, or all that are. Pure."""

from collections.abc import Collection
from difflib import get_close_matches
from pathlib import PurePath

_MOST_NAMED = 24


def nearest(wanted: str, known: Collection[str]) -> str:
    """The known name that is meant by a slip of the fingers; "" if none is close."""
    return next(iter(get_close_matches(wanted, known, n=1)), "")


def near_or_all(wanted: str, known: Collection[str]) -> str:
    """`; did you mean `x`?`, or all known names; "" if there are none."""
    if near := nearest(wanted, known):
        return f"; did you mean `{near}`?"
    named = sorted(known)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return f"; known: {', '.join(named[:_MOST_NAMED])}{more}" if named else ""


def nearest_file(wanted: str, known: Collection[str]) -> str:
    """The same for names of files: what they all end in makes no two of them alike."""
    stems = {PurePath(name).stem: name for name in sorted(known, reverse=True)}
    return stems.get(nearest(PurePath(wanted).stem, stems), "")
