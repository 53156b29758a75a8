"""The ways in which one known key may be written: as it is, escaped, or encoded. Pure.

Rule guarded: whoever sees a form of a key has the key, so each form counts as the key itself.
"""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import msgspec

MIN_SECRET_CHARS = 6
_MIN_LOWERCASE_CHARS = 8  # small letters alone, and fewer: an ordinary word
_MIN_BASE64_CHARS = 7  # of what is the same wherever in a text the key stands


def is_redactable(secret: str) -> bool:
    """Whether hiding this leaves the rest readable: no short, ordinary word.

    At least six characters; at least eight if they are all small letters.
    """
    least = _MIN_LOWERCASE_CHARS if secret.isalpha() and secret.islower() else MIN_SECRET_CHARS
    return len(secret) >= least


def secret_forms(secret: str) -> tuple[str, ...]:
    """Every form of a key that is looked for, the longest first.

    Base64 stands for three forms in each alphabet, for a key may begin at any byte of three; what
    its neighbours decide is left out.
    """
    data = secret.encode("utf-8", "surrogatepass")
    forms = {secret, data.hex(), data.hex().upper(), *_escaped(secret)}
    for encode in (b64encode, urlsafe_b64encode):
        forms.update(_base64(data, encode(b"\0" * lead + data).decode(), lead) for lead in range(3))
    return tuple(sorted((form for form in forms if form), key=len)[::-1])


def _escaped(secret: str) -> Iterator[str]:
    plain = secret.encode("utf-8", "replace").decode()
    once = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    for text in once:
        yield text
        yield text.replace("/", "\\/")
        yield json.dumps(text)[1:-1]  # JSON within JSON: the arguments of a call that writes some
        yield json.dumps(text, ensure_ascii=False)[1:-1]
    for text in (quote(plain, safe=""), quote(plain), quote_plus(plain)):
        yield text
        yield "".join(_lowercase_escapes(text))
    bare = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield bare
    yield bare.replace('"', "&quot;").replace("'", "&#x27;")
    yield bare.replace('"', "&quot;").replace("'", "&#39;")
    yield secret.replace("'", "'\\''")
    yield secret.replace("'", "'\"'\"'")
    yield repr(secret)[1:-1]


def _lowercase_escapes(text: str) -> Iterator[str]:
    """%2F as %2f; and nothing else."""
    pieces = text.split("%")
    yield pieces[0]
    for piece in pieces[1:]:
        yield f"%{piece[:2].lower()}{piece[2:]}"


def _base64(data: bytes, encoded: str, lead: int) -> str:
    """The letters of `encoded` that the key alone decides; "" if they are too few to say much."""
    start = -(-lead * 8 // 6)
    end = (lead + len(data)) * 8 // 6
    return encoded[start:end] if end - start >= _MIN_BASE64_CHARS else ""


def json_form(form: str) -> bytes:
    """As it stands inside a JSON string that our own encoder wrote."""
    return msgspec.json.encode(form.encode("utf-8", "replace").decode())[1:-1]
