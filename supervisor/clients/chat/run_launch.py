"""Starts and continues runs for the conversation, as background runs of `swarm run` and `resume`.

The run belongs to no terminal: it goes on when the conversation is left or dies.
"""

from collections.abc import Mapping, Sequence

from ..client.live_run import LiveRun
from ..client.open_run import start_in_background


class RunLauncher:
    """Knows the options that the person gave to the conversation; each new run gets them.

    Args:
        options: Of `swarm run`, as typed.
        environment: Of the runs.
    """

    def __init__(self, options: Sequence[str], environment: Mapping[str, str]) -> None:
        self._options = tuple(options)
        self._environment = environment
        self._model = ""

    def choose_model(self, name: str) -> None:
        """The model of the run that is started or continued next."""
        self._model = name

    def _take_chosen(self) -> list[str]:
        chosen, self._model = self._model, ""
        return [f"--model={chosen}"] if chosen else []

    async def start(self, words: str, images: Sequence[str], *, planning: bool = False) -> LiveRun:
        """A new run with these words as its task. Raises SwarmError with what to do."""
        arguments = ["run", "--detach", "--keep-open", "--prompt-file=-"]
        arguments += ["--plan"] if planning else []
        if not any(option.startswith("--reviewer") for option in self._options):
            arguments.append("--reviewer=person")
        arguments += [
            *self._options,
            *self._take_chosen(),
            *(f"--image={image}" for image in images),
        ]
        return await start_in_background(arguments, words, self._environment)

    async def resume(self, run_id: str, words: str, images: Sequence[str]) -> LiveRun:
        """Continue a run that has ended. Raises SwarmError with what to do."""
        arguments = ["resume", run_id, "--detach", "--keep-open", "--prompt-file=-"]
        arguments += [*self._take_chosen(), *(f"--image={image}" for image in images)]
        return await start_in_background(arguments, words, self._environment)
