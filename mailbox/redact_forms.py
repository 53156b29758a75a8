"""The forms in which a known key can occur: as it is, escaped, or encoded. No I/O.

Each form reveals the key, so each form is hidden like the key itself.
"""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import msgspec

MIN_SECRET_CHARS = 6
_MIN_LOWERCASE_CHARS = 8  # a shorter word of only lowercase letters is ordinary
_MIN_BASE64_CHARS = 7  # of the part that does not depend on the key's position in a text


def is_redactable(secret: str) -> bool:
    """True if hiding this keeps the rest readable: it is no short, ordinary word.

    At least six characters; at least eight if they are all lowercase letters.
    """
    least = _MIN_LOWERCASE_CHARS if secret.isalpha() and secret.islower() else MIN_SECRET_CHARS
    return len(secret) >= least


def secret_forms(secret: str) -> tuple[str, ...]:
    """All forms of a key to search for, the longest first.

    Base64 adds three forms per alphabet, because a key may start at any of three byte offsets.
    Characters that depend on neighbouring bytes are left out.
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
        # JSON within JSON, as in the arguments of a call that writes JSON
        yield json.dumps(text)[1:-1]
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
    """Lower-case the percent escapes only: %2F as %2f."""
    pieces = text.split("%")
    yield pieces[0]
    for piece in pieces[1:]:
        yield f"%{piece[:2].lower()}{piece[2:]}"


def _base64(data: bytes, encoded: str, lead: int) -> str:
    """The characters of `encoded` that depend on the key alone; "" if they are too few."""
    start = -(-lead * 8 // 6)
    end = (lead + len(data)) * 8 // 6
    return encoded[start:end] if end - start >= _MIN_BASE64_CHARS else ""


def json_form(form: str) -> bytes:
    """The form as our encoder writes it inside a JSON string."""
    return msgspec.json.encode(form.encode("utf-8", "replace").decode())[1:-1]
