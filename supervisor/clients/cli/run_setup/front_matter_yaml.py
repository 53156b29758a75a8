"""The YAML of a task's front matter, with the line of each key; importing yaml takes 15 ms."""

import yaml

from swarm.mailbox.base.bounded_formats import UnreadableText
from swarm.mailbox.base.bounded_yaml import compose_yaml_text
from swarm.mailbox.base.errors import UsageError

_FIRST_LINE = 2  # below the opening `---`


def load_front_yaml(text: str, *, name: str) -> tuple[object, dict[str, int]]:
    """Return the value and the line of each dotted key.

    Raises UsageError with the file's name and the line: broken YAML, a duplicate key, an alias.
    """
    lines: dict[str, int] = {}
    try:
        node, value = compose_yaml_text(text)
        if node is None:
            return {}, {}
        _note_key_lines(node, "", lines, name)
        return value, lines
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + _FIRST_LINE if error.problem_mark else _FIRST_LINE
        raise UsageError(f"{name}, line {line}: not valid YAML: {error.problem}") from error
    except UnreadableText as error:
        line = (error.line or 0) + _FIRST_LINE
        raise UsageError(f"{name}, line {line}: not valid YAML: {error}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{name}, line {_FIRST_LINE}: not valid YAML: {error}") from error


def _note_key_lines(node: yaml.Node, prefix: str, lines: dict[str, int], name: str) -> None:
    """Fill `lines`; refuse duplicate keys."""
    if isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            _note_key_lines(entry, f"{prefix}[{index}]", lines, name)
    elif isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = f"{prefix}.{key_node.value}" if prefix else str(key_node.value)
            line = key_node.start_mark.line + _FIRST_LINE
            if not isinstance(key_node, yaml.ScalarNode):
                raise UsageError(f"{name}, line {line}: a key must be a plain word")
            if key in lines:
                raise UsageError(f"{name}, line {line}, key {key}: given twice")
            lines[key] = line
            _note_key_lines(value_node, key, lines, name)
