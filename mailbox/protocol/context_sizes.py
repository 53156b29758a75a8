"""What a request to a model holds beside the conversation: sizes, with the files they come from."""

from .values.base import Value


class TextSize(Value):
    """A text by its name (a tool's name, a file's path) and its size in UTF-8 bytes."""

    name: str
    size_bytes: int


class HeadSizes(Value):
    """Instructions and tools of a request, and the files of which its AGENTS.md text was made.

    `instructions_from` is "" for the built-in text, else the name of the role that gives its own.
    """

    instructions_bytes: int = 0
    instructions_from: str = ""
    tools: tuple[TextSize, ...] = ()  # name, description and parameters together
    schema_bytes: int = 0  # of the JSON schema that the answer must fit
    guidance_files: tuple[TextSize, ...] = ()  # in the order in which they were joined
