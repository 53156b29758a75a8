"""The text of a `scripted:` file."""

import yaml


class _WithoutAliases(yaml.SafeDumper):
    """What occurs twice is written twice: aliases are refused."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def script_text(script: dict[str, object]) -> str:
    """The script as YAML."""
    return yaml.dump(script, Dumper=_WithoutAliases)
