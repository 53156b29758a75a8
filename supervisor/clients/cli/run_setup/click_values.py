"""What click hands over: its types are not known before they were checked."""

from typing import Any, TypeAlias

OptionValue: TypeAlias = Any  # type: ignore[explicit-any]  # what click hands over by a name
