"""Which tools a model is offered, and their short form for small models. Pure.

A small model chooses among few tools; each further one costs its attention and 100 tokens.
"""

from collections.abc import Iterable
from typing import cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.parts.tool_names import BEGIN_TASK
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.settings import ToolChoice

from .interface.function_tool import placeholder

ALL_TOOLS = ToolChoice()
# The server's grammar adds `finish`.
_CONSTRAINED = frozenset({BEGIN_TASK, "exec_command", "edit_file"})
_SMALL = _CONSTRAINED | {"list_dir"}
_MOST_CHARS = 300  # of a description
_ABOUTS = {  # without what a small model is not offered
    "exec_command": "Run a shell command in the project's folder: cat to read a file, grep -rn to "
    "search, a test or a program. You see its exit code and output.",
    "list_dir": "List what a folder holds, two levels deep.",
}

Fields = dict[str, object]


def fitting_tools(names: Iterable[str], model: ModelInfo, choice: ToolChoice) -> list[str]:
    """Return the names that fit the model, in their order; a role's own list is taken as it is."""
    if choice.only is not None or not model.is_small:
        return list(names)
    fitting = _CONSTRAINED if model.constrained_calls else _SMALL
    return [name for name in names if name in fitting]


def shorten(spec: ToolSpec, model: ModelInfo) -> ToolSpec:
    """Return the tool as a small model reads it: few sentences, the arguments that it must give,
    and an example with placeholders, since a small model copies what is concrete.

    The tools of other models stay as they are, and those of constrained ones, which the gateway
    lists.
    """
    if model.constrained_calls or not model.is_small or spec.grammar is not None:
        return spec
    schema = decode_json_as(spec.parameters, Fields)
    properties = cast("Fields", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    kept = {name: properties[name] for name in required}
    shown = {**schema, "properties": kept}
    example = msgspec.json.encode({name: placeholder(name, kept[name]) for name in kept}).decode()
    return ToolSpec(
        name=spec.name,
        description=f"{_ABOUTS.get(spec.name) or _first_sentences(spec.description)}"
        f"\nExample: {example}",
        parameters=msgspec.json.encode(shown),
    )


def _first_sentences(description: str) -> str:
    text = " ".join(description.partition("\n\n")[0].split())
    if len(text) <= _MOST_CHARS:
        return text
    end = text.rfind(". ", 0, _MOST_CHARS)
    return text[: end + 1] if end > 0 else text[:_MOST_CHARS]
