"""What each command of the conversation does: a request to the run, or its `swarm …` twin."""

from collections.abc import Callable, Mapping

from rich.style import Style
from rich.text import Text

from swarm.mailbox.errors import UsageError
from swarm.mailbox.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import (
    AgentView,
    AnyControl,
    ChangeSettings,
    CompactAgent,
    Done,
)
from swarm.mailbox.protocol.limits import AskForApproval
from swarm.mailbox.protocol.settings import SandboxMode

from ..client.live_run import LiveRun
from ..console.safe_text import clean_line
from ..console.theme import BAD, BUSY, DIM, GOOD, HEAD, PLAIN
from .chat_transcript import TranscriptPart
from .slash_commands import SLASH_COMMANDS, SlashCall
from .twin_commands import run_twin

_SANDBOXES: dict[str, SandboxMode] = {
    "read-only": "read-only", "workspace-write": "workspace-write",
    "danger-full-access": "danger-full-access",
}  # fmt: skip
_APPROVALS: dict[str, AskForApproval] = {
    "untrusted": "untrusted", "on-failure": "on-failure", "on-request": "on-request",
    "never": "never",
}  # fmt: skip
KEYS_HELP = (
    ("Enter · Alt-Enter, Ctrl-J", "send · a new line"),
    ("Tab", "complete; while the agent works: words steer it, or wait in a queue"),
    ("Esc", "stop the turn; the agent stays"),
    ("Ctrl-T", "the tree: small, large, the selected agent's transcript"),
    ("Ctrl-Up, Ctrl-Down", "select the agent that words, Esc and questions are for"),
    ("Ctrl-R · Up, Down", "search the history · go through it"),
    ("Ctrl-X Ctrl-E", "write in $EDITOR"),
    ("@", "name a file; a picture's path sends the picture"),
    ("Ctrl-G", "answer a question later, or now"),
    ("Ctrl-C twice", "leave; the run goes on"),
)


class ChatCommands:
    """Runs commands for one conversation.

    Args:
        print_parts: Takes what a command says.
        environment: Of its twins.
        width: Columns of the terminal.
    """

    def __init__(
        self,
        *,
        print_parts: Callable[[list[TranscriptPart]], None],
        environment: Mapping[str, str],
        width: Callable[[], int],
    ) -> None:
        self._print, self._environment, self._width = print_parts, environment, width
        self._requests: dict[str, Callable[[SlashCall, str], AnyControl]] = {
            "model": _model_change,
            "effort": _effort_change,
            "permissions": _rights_change,
            "compact": lambda call, agent: CompactAgent(agent=agent),
        }

    async def run(self, call: SlashCall, run: LiveRun | None, agent: AgentView | None) -> None:
        """Do what a command says. `agent` is the selected one.

        Raises SwarmError with words for the person.
        """
        if call.name == "help":
            self._print(help_lines())
        elif run is None:
            if call.name != "model" or call.words:
                raise UsageError(f"/{call.name} needs a run: say first what is to be done")
            await self._twin(["models", "list"])
        elif call.name in self._requests and (call.words or call.name == "compact"):
            path = ROOT_PATH if agent is None else agent.path
            await self._request(run, self._requests[call.name](call, path))
        elif call.name == "permissions" and agent is not None:
            words = f"sandbox {agent.sandbox or 'unknown'}; /permissions read-only narrows it"
            self._print([Text(clean_line(f"{agent.path}: {words}"), style=PLAIN)])
        else:
            await self._twin(
                twin_arguments(call, short_id(run.run_id), agent), diff=call.name == "diff"
            )

    async def _request(self, run: LiveRun, request: AnyControl) -> None:
        reply = await run.request(request)
        words = reply.message if isinstance(reply, Done) else ""
        self._print([Text(f"  {clean_line(words)}", style=DIM)])

    async def _twin(self, arguments: list[str], *, diff: bool = False) -> None:
        done = await run_twin(arguments, environment=self._environment, columns=self._width())
        parts: list[TranscriptPart] = [Text(), Text(f"swarm {' '.join(arguments)}", style=DIM)]
        parts += [
            Text(line, style=_diff_style(line) if diff else PLAIN)
            for line in (done.text.split("\n") if done.text else ())
        ]
        words = BAD if done.exit_code else DIM
        parts += [Text(f"  {line}", style=words) for line in done.words.split("\n") if line]
        if not done.text and not done.words:
            parts.append(Text("  nothing", style=DIM))
        self._print(parts)


def twin_arguments(call: SlashCall, run: str, agent: AgentView | None) -> list[str]:
    """The command line that does the same. Pure. Raises UsageError for words that do not fit."""
    path = ROOT_PATH if agent is None else agent.path
    match call.name:
        case "agents":
            return ["show", run]
        case "status":
            return ["ps", "--limit", "10"]
        case "approvals" | "fork":
            return [call.name, run]
        case "diff" | "undo":
            return [call.name, run, *call.words]
        case "rollback":
            turns = call.words[0] if call.words else "1"
            if not (turns.isascii() and turns.isdigit() and int(turns) > 0):
                raise UsageError("/rollback takes the number of turns: /rollback 2")
            return ["rollback", run, path, "--turns", turns]
        case "review":
            words = ["-p", call.words[0]] if call.words else ["--uncommitted"]
            return ["review", "--run", run, "--agent", path, *words]
        case "tools":
            return ["roles", "explain", "default" if agent is None else agent.role]
        case "model":
            return ["models", "list"]
        case "resume":
            return ["ps", "--limit", "10"]
        case _:
            raise UsageError(f"/{call.name} needs a word more; /help says which")


def help_lines() -> list[TranscriptPart]:
    """The commands and keys. Pure."""
    lines: list[TranscriptPart] = [Text(), Text("commands", style=HEAD)]
    for command in SLASH_COMMANDS:
        name = f"/{command.name} {command.arguments}".rstrip()
        lines.append(Text.assemble((f"  {name:<35}", BUSY), (command.short, PLAIN)))
    lines += [Text(), Text("keys", style=HEAD)]
    lines += [Text.assemble((f"  {key:<26}", BUSY), (text, PLAIN)) for key, text in KEYS_HELP]
    return lines


def _model_change(call: SlashCall, agent: str) -> AnyControl:
    return ChangeSettings(agent=agent, model=call.words[0])


def _effort_change(call: SlashCall, agent: str) -> AnyControl:
    return ChangeSettings(agent=agent, effort=call.words[0])


def _rights_change(call: SlashCall, agent: str) -> AnyControl:
    """Raises UsageError for a word that is neither a sandbox nor an approval policy."""
    sandbox: SandboxMode | None = None
    approval: AskForApproval | None = None
    for word in call.words:
        if word in _SANDBOXES:
            sandbox = _SANDBOXES[word]
        elif word in _APPROVALS:
            approval = _APPROVALS[word]
        else:
            known = ", ".join((*_SANDBOXES, *_APPROVALS))
            raise UsageError(f"{word!r} is no sandbox and no approval policy; there are {known}")
    return ChangeSettings(agent=agent, sandbox=sandbox, approval=approval)


def _diff_style(line: str) -> Style:
    if line.startswith("+"):
        return GOOD
    return BAD if line.startswith("-") else (BUSY if line.startswith("@@") else PLAIN)
