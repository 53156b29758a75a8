"""Which model a server says that it answers with, and a warning when that is another one.

A server on this machine answers with what it has loaded, whatever name a request gives, and a
person may load another model in the middle of a run. Its window and abilities are then not those
that the run counts with.
"""

from collections.abc import Callable

from swarm.mailbox.protocol.spec import ProviderSpec

from .providers import LOCAL_SERVERS

_MOST_CHARS = 120  # of a name
_MOST_NAMES = 8  # of one model; a router that answers with many is not told of for ever


class AnsweringModels:
    """Remembers the names that one provider gives, by the model that was asked for.

    Args:
        warn: Receives each warning; a name is warned of once.
    """

    def __init__(self, provider: ProviderSpec, warn: Callable[[str], None]) -> None:
        self._provider, self._warn = provider, warn
        self._names: dict[str, list[str]] = {}

    def note(self, asked: str, said: str) -> None:
        """A response has ended, or broke off. `said`: the server's name of its model, or ""."""
        if not said or len(said) > _MOST_CHARS or not said.isprintable():
            return
        names = self._names.setdefault(asked, [])
        if said in names or len(names) >= _MOST_NAMES:
            return
        names.append(said)
        name = self._provider.name or self._provider.id
        if len(names) > 1:
            self._warn(
                f"{name} has changed its model: requests for {asked} are now answered by {said}, "
                f"before by {names[-2]}. {_ADVICE}"
            )
        elif self._provider.id in LOCAL_SERVERS and not is_same_model(asked, said):
            self._warn(f"{name} answers requests for {asked} with another model, {said}. {_ADVICE}")


_ADVICE = (
    "Its window and abilities may differ from what the run counts with: load the right model, or "
    "name this one with -m"
)


def is_same_model(asked: str, said: str) -> bool:
    """True if both names may mean one model: a path, a tag or a date more makes no other one."""
    one, other = _plain(asked), _plain(said)
    return one.startswith(other) or other.startswith(one)


def _plain(name: str) -> str:
    last = name.lower().replace("\\", "/").rpartition("/")[2]
    return last.removesuffix(".gguf").removesuffix(":latest").removesuffix("-latest")
