"""What an MCP server asks a person during a call: the fields of a form, or a visit of a web page.

Every text is the server's: untrusted, cleaned and bounded by the hub. Values only.
"""

from typing import Literal

from .values.base import Tagged, Value

FieldKind = Literal["text", "integer", "number", "boolean", "choice", "choices"]
TextFormat = Literal["", "email", "uri", "date", "date-time"]
ElicitationAnswer = Literal["accept", "decline", "cancel"]


class FormChoice(Value):
    value: str
    title: str = ""


class FormField(Value):
    """One field. `least` and `most` bound a text's characters, a number, or how many are chosen."""

    name: str
    kind: FieldKind = "text"
    title: str = ""
    description: str = ""
    required: bool = False
    default: tuple[str, ...] | None = None  # as a person would type it; None: there is none
    choices: tuple[FormChoice, ...] = ()
    text_format: TextFormat = ""
    least: float | None = None
    most: float | None = None


class ElicitationAction(Tagged, tag="elicitation"):
    """A form, or with a `url` a page that a person is to open. Only a person can answer."""

    server: str
    message: str
    fields: tuple[FormField, ...] = ()
    url: str = ""
    host: str = ""  # of the URL, in ASCII
    tool: str = ""  # the tool whose call asks
    source: str = ""  # where the server is configured
