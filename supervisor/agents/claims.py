"""Which tasks are in the same words, and which files two agents both claim to write. Pure."""

import posixpath
from collections.abc import Iterable, Sequence
from hashlib import blake2b

MAX_CLAIMS = 64
MAX_CLAIM_CHARS = 500
_LEAST_WORDS = 3  # "go on" says nothing of the work
_MARKS = ".,;:!?\"'`()[]*"
_WILDCARDS = frozenset("*?[")


def words_of(text: str) -> list[str]:
    """The words of a text without case, and without the punctuation around them (`!=` stays)."""
    return [_without_marks(raw) for raw in text.casefold().split()]


def _without_marks(raw: str) -> str:
    word = raw.strip(_MARKS)
    return word if any(map(str.isalnum, word)) else raw


def task_key(message: str) -> str:
    """A digest that is equal for tasks of the same words; "" for a task of fewer than three."""
    words = words_of(message)
    if len(words) < _LEAST_WORDS:
        return ""
    return blake2b(" ".join(words).encode("utf-8", "replace"), digest_size=12).hexdigest()


def claimed_paths(claims: Sequence[str], *, cwd: str) -> tuple[str, ...]:
    """Claims as absolute paths, by their text alone; a pattern stands for the folder before it.

    Raises ValueError, for the model: too many, too long, or not a path.
    """
    if len(claims) > MAX_CLAIMS:
        raise ValueError(f"claims: at most {MAX_CLAIMS}; name folders instead of their files")
    return tuple(dict.fromkeys(_claimed_path(claim, cwd) for claim in claims))


def _claimed_path(claim: str, cwd: str) -> str:
    if not claim.strip() or len(claim) > MAX_CLAIM_CHARS or not claim.isprintable():
        raise ValueError(
            f"claims: each is the path of a file or folder, of at most {MAX_CLAIM_CHARS} characters"
        )
    steps = claim.strip().split("/")
    plain = next((n for n, step in enumerate(steps) if _WILDCARDS & set(step)), len(steps))
    start = "/" if claim.strip().startswith("/") else cwd
    path = posixpath.normpath(posixpath.join(start, *(step for step in steps[:plain] if step)))
    return f"/{path.lstrip('/')}"


def covers(folder: str, path: str) -> bool:
    """True if this is the path itself, or a folder above it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def shared_claims(mine: Iterable[str], theirs: Sequence[str]) -> list[str]:
    """Those of my claims that are theirs, too, lie within one of theirs, or contain one."""
    return [one for one in mine if any(covers(one, it) or covers(it, one) for it in theirs)]
