"""What each command of the conversation does: a request to the run, or a `swarm …` command."""

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from rich.text import Text

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import (
    NOTHING_TO_MERGE,
    AcceptPlan,
    AgentView,
    AnyControl,
    ChangeSettings,
    CompactAgent,
    Done,
)
from swarm.mailbox.protocol.settings import SandboxMode
from swarm.mailbox.protocol.values.limits import AskForApproval

from ...base.prompt_call import PromptCall
from ...base.safe_text import clean_line
from ...journal.journal_reader import read_records
from ...parts.copies.cut_off_merges import NOT_AT_ITS_END
from ...runs.client_errors import ControlRequestRefused
from ...runs.paths import RunPaths
from ..client.live_run import LiveRun
from ..console.diff_lines import diff_lines
from ..console.theme import BAD, BUSY, DIFF_STYLES, DIM, HEAD, PLAIN
from .attached_run import AttachedRun
from .chat_frame import PLAN_NOTICE
from .chat_transcript import TranscriptPart
from .confirmation_panel import ConfirmationPanel
from .current_run import CurrentRun
from .slash_commands import (
    BUILT_IN_NAMES,
    PICKERS,
    SLASH_COMMANDS,
    CommandName,
    OwnCommand,
    SlashCall,
    SlashCommand,
)
from .status_page import mcp_lines, rights_lines, status_lines
from .swarm_commands import COMMAND_LIMIT_S, SwarmOutput, run_swarm_command

_MERGE_LIMIT_S = 660.0  # a plan may take five minutes, and the merge plans again
_INIT_LIMIT_S = 660.0  # longer than the deadline of the run that looks at the project

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
    ("/SERVER:PROMPT WORD…", "send the text of an MCP server's prompt"),
    ("@", "name a file; a picture's path sends the picture"),
    ("!COMMAND", "run it in the sandbox; no agent is told"),
    ("Ctrl-G", "answer a question later, or now"),
    ("Ctrl-C twice", "leave; the run goes on"),
)


class ChatCommands:
    """Runs commands for one conversation.

    Args:
        current: The run that is talked to.
        print_parts: Takes what a command says.
        confirmation: Asks the person for a yes.
        environment: Of these commands.
        width: Columns of the terminal.
        own: The command files and skills that are known so far.
        pick: Offers what may follow a command in the input line.
    """

    def __init__(
        self,
        current: CurrentRun,
        *,
        print_parts: Callable[[list[TranscriptPart]], None],
        confirmation: ConfirmationPanel,
        environment: Mapping[str, str],
        width: Callable[[], int],
        own: Callable[[], Sequence[OwnCommand]],
        pick: Callable[[str], None],
    ) -> None:
        self._pick = pick
        self._current, self._print, self._confirmation = current, print_parts, confirmation
        self._environment, self._width, self._own = environment, width, own
        self._always: dict[str, Callable[[], Awaitable[None]]] = {  # also without a run
            "init": self._init,
            "skills": lambda: self._show_command(["skills", "list"]),
        }

    async def run(self, call: SlashCall) -> None:
        """Do what a command says, for the selected agent.

        Raises SwarmError with words for the person.
        """
        if call.name == "help":
            self._print(help_lines(self._own()))
        elif call.name == "plan":
            await self._plan(call)
        elif call.name == "memory":
            await self._show_memory(call.words)
        elif call.name in PICKERS and not call.words:
            await self._offer(call.name)
        elif call.name in self._always and not call.words:
            await self._always[call.name]()
        elif call.name == "model" and self._current.live is None:
            self._current.choose_model(call.words[0])
            self._lines([f"  your next words go to {clean_line(call.words[0])}"])
        elif (attached := self._current.attached) is None:
            raise UsageError(f"/{call.name} needs a run: say first what is to be done")
        else:
            await self._of_run(call, attached)

    async def _offer(self, name: CommandName) -> None:
        """What may follow a command, below the input line; first what counts now."""
        attached, agent = self._current.attached, self._current.agent
        if name in ("permissions", "effort") and attached is None:
            raise UsageError(f"/{name} needs a run: say first what is to be done")
        if name == "permissions" and attached is not None:
            path = self._current.selected
            self._lines(await asyncio.to_thread(rights_of, attached.run.paths, path))
        elif name != "resume" and attached is not None and agent is not None:
            effort = f", effort {agent.effort}" if agent.effort else ""
            model = agent.model or attached.view().model
            self._lines([f"  {clean_line(agent.path)} has {clean_line(model)}{effort}"])
        self._pick(f"/{name} ")

    async def send_prompt(self, call: PromptCall) -> None:
        """Send the text of a server's prompt to the agent; what went wrong is printed instead."""
        arguments = ["mcp", "prompt", "--", call.server, call.prompt, *call.words]
        done = await self._run_command(arguments)
        if done.exit_code or not done.text.strip():
            self._print(swarm_output_parts(arguments, done))
        else:
            await self._current.send(done.text)

    async def _of_run(self, call: SlashCall, attached: AttachedRun) -> None:
        run, agent, path = attached.run, self._current.agent, self._current.selected
        match call.name:
            case "status":
                self._lines(status_lines(attached.view(), agent, now=time.time()))
            case "mcp":
                self._lines(await asyncio.to_thread(mcp_of, run.paths, path))
            case "model":
                await self._request(run, ChangeSettings(agent=path, model=call.words[0]))
            case "effort":
                await self._request(run, ChangeSettings(agent=path, effort=call.words[0]))
            case "permissions":
                await self._change_rights(run, rights_change(call, path))
            case "accept":
                await self._request(run, AcceptPlan(agent=path, text="".join(call.words)))
            case "compact":
                await self._request(run, CompactAgent(agent=path))
            case "undo":
                await self._undo(call, short_id(run.run_id), agent)
            case "merge":
                await self._merge(["merge", short_id(run.run_id), *call.words])
            case _:
                words = swarm_arguments(call, short_id(run.run_id), agent)
                await self._show_command(words, diff=call.name == "diff")

    async def _plan(self, call: SlashCall) -> None:
        """Begin plan mode, or leave it (`off`); other words are sent to the planning agent."""
        current, words = self._current, "".join(call.words)
        if (live := current.live) is None:
            if current.attached is not None:
                raise UsageError("the run has ended; your next words continue it, then say /plan")
            current.plan_first(on=words != "off")
            if not words or words == "off":
                state = "does not begin" if words else "begins"
                self._lines([f"  the next run {state} in plan mode"])
                return
        elif words == "off" or current.agent is None or not current.agent.planning:
            request = ChangeSettings(agent=current.selected, plan=words != "off")
            await self._request(live.run, request)
        elif not words:
            self._lines([f"  {PLAN_NOTICE}"])
        if words and words != "off":
            await current.send(words)

    async def _show_memory(self, words: Sequence[str]) -> None:
        """List what is remembered of the run's project, or search it."""
        attached = self._current.attached
        where = [] if attached is None else ["-C", attached.view().cwd]
        chosen = ["search", *where, "--", *words] if words else ["list", *where]
        await self._show_command(["memory", *chosen])

    async def _change_rights(self, run: LiveRun, request: ChangeSettings) -> None:
        """Less is done at once; more only after a yes. The supervisor decides which it is."""
        try:
            await self._request(run, request)
        except ControlRequestRefused as refused:
            if "--widen" not in str(refused):
                raise
            wanted = ", ".join(one for one in (request.sandbox, request.approval) if one)
            if not await self._confirmation.ask(
                f"Give {clean_line(request.agent)} more rights: {wanted}?",
                "  It counts from its next turn on, for it and what it starts then.",
            ):
                self._lines(["  its rights stay as they are"])
                return
            await self._request(run, msgspec.structs.replace(request, widen=True))

    async def _init(self) -> None:
        """Show a draft of AGENTS.md, and write exactly this draft after a yes."""
        attached = self._current.attached
        where = [] if attached is None else ["-C", attached.view().cwd]
        self._lines(["  an explorer looks at the project; this may take some minutes"])
        with TemporaryDirectory(prefix="swarm-init-") as folder:
            draft = Path(folder) / "AGENTS.md"
            words = ["init", *where, "--save-draft", str(draft)]
            shown = await self._run_command(words, limit_s=_INIT_LIMIT_S)
            self._print(swarm_output_parts(["init"], shown, diff=True))
            if shown.exit_code or not draft.exists():
                return
            if await self._confirmation.ask("Write AGENTS.md as shown above?"):
                await self._show_command(
                    ["init", *where, "--draft", str(draft), "--yes"], diff=True
                )
            else:
                self._lines(["  nothing was written"])

    async def _undo(self, call: SlashCall, run: str, agent: AgentView | None) -> None:
        """Show what would be taken back, and do it after a yes."""
        words = swarm_arguments(call, run, agent)
        stat = ["diff", *words[1:], "--stat"]
        changed = await self._run_command(stat)
        if changed.exit_code or not changed.text:
            await self._show_command(words)
            return
        self._print(swarm_output_parts(stat, changed))
        whose = clean_line(call.words[0]) if call.words else "all agents of this run"
        if await self._confirmation.ask(f"Take back what {whose} did to files, as listed above?"):
            await self._show_command(words)
        else:
            self._lines(["  nothing was taken back"])

    async def _merge(self, words: list[str]) -> None:
        """Show what would go in; if nothing conflicts, merge it after a yes."""
        check = [*words, "--check"]
        checked = await self._run_command(check, limit_s=_MERGE_LIMIT_S)
        self._print(swarm_output_parts(check, checked))
        is_cut_off = NOT_AT_ITS_END in checked.text
        if not is_cut_off and (checked.exit_code or NOTHING_TO_MERGE in checked.text):
            return
        if await self._confirmation.ask("Merge this into the project?"):
            merged = await self._run_command(words, limit_s=_MERGE_LIMIT_S)
            self._print(swarm_output_parts(words, merged))
        else:
            self._lines(["  nothing was merged"])

    async def _request(self, run: LiveRun, request: AnyControl) -> None:
        reply = await run.request(request)
        words = reply.message if isinstance(reply, Done) else ""
        self._print([Text(f"  {clean_line(words)}", style=DIM)])

    def _lines(self, lines: list[str]) -> None:
        self._print([Text(), *(Text(line, style=PLAIN) for line in lines)])

    async def run_shell(self, command: str) -> None:
        """A line with `!`: a command of the person's own, in the sandbox; no agent is told."""
        words = ["sandbox", "-s", "workspace-write", "--", "/bin/sh", "-c", command]
        done = await self._run_command(words)
        if done.exit_code and not done.words:
            done = done._replace(words=f"exit code {done.exit_code}")
        self._print(swarm_output_parts(words, done))

    async def _show_command(self, arguments: list[str], *, diff: bool = False) -> None:
        self._print(swarm_output_parts(arguments, await self._run_command(arguments), diff=diff))

    async def _run_command(
        self, arguments: list[str], *, limit_s: float = COMMAND_LIMIT_S
    ) -> SwarmOutput:
        return await run_swarm_command(
            arguments, environment=self._environment, columns=self._width(), limit_s=limit_s
        )


def swarm_output_parts(
    arguments: Sequence[str], done: SwarmOutput, *, diff: bool = False
) -> list[TranscriptPart]:
    """What such a command printed."""
    parts: list[TranscriptPart] = [Text(), Text(f"swarm {' '.join(arguments)}", style=DIM)]
    if diff:
        parts += [Text(line, style=DIFF_STYLES[kind]) for kind, line in diff_lines(done.text)]
    else:
        parts += [Text(line, style=PLAIN) for line in done.text.split("\n") if done.text]
    words = BAD if done.exit_code else DIM
    parts += [Text(f"  {line}", style=words) for line in done.words.split("\n") if line]
    if not done.text and not done.words:
        parts.append(Text("  nothing", style=DIM))
    return parts


def mcp_of(paths: RunPaths, agent: str) -> list[str]:
    """What the run's journal says of MCP; reads it."""
    return mcp_lines(read_records(paths), agent)


def rights_of(paths: RunPaths, agent: str) -> list[str]:
    """What the run's journal says that an agent may do; reads it."""
    return rights_lines(read_records(paths), agent)


def _goal_words(line: str) -> list[str]:
    """As of the command line; words that are no action are a new goal. Raises UsageError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"/goal: {error}; close the quote") from error
    if words and words[0] not in {"show", "set", "pause", "continue", "resume", "clear"}:
        return ["set", *words]
    return words


def swarm_arguments(call: SlashCall, run: str, agent: AgentView | None) -> list[str]:
    """The command line that does the same. Raises UsageError for words that do not fit."""
    path = ROOT_PATH if agent is None else agent.path
    match call.name:
        case "agents":
            return ["show", run]
        case "context":
            return ["show", run, path, "--context"]
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
        case "goal":
            return ["goal", run, *_goal_words("".join(call.words))]
        case "name" if call.words:
            return ["name", run, call.words[0]]
        case _:
            raise UsageError(f"/{call.name} needs a word more; /help says which")


def help_lines(own: Sequence[OwnCommand] = ()) -> list[TranscriptPart]:
    """The commands and keys, and what the folder brings."""
    lines: list[TranscriptPart] = [Text(), Text("commands", style=HEAD)]
    usable = [one for one in own if one.name not in BUILT_IN_NAMES]
    groups: tuple[Sequence[SlashCommand | OwnCommand], ...] = (SLASH_COMMANDS, usable)
    for group in groups:
        if group is usable and usable:
            lines += [Text(), Text("of this folder, and your own", style=HEAD)]
        for command in group:
            name = f"/{command.name} {command.arguments}".rstrip()
            lines.append(Text.assemble((f"  {name:<35}", BUSY), (command.short, PLAIN)))
    lines += [Text(), Text("keys", style=HEAD)]
    lines += [Text.assemble((f"  {key:<26}", BUSY), (text, PLAIN)) for key, text in KEYS_HELP]
    return lines


def rights_change(call: SlashCall, agent: str) -> ChangeSettings:
    """The change that these words ask for.

    Raises UsageError for a word that is neither a sandbox nor an approval policy.
    """
    sandbox: SandboxMode | None = None
    approval: AskForApproval | None = None
    for word in call.words:
        if word in _SANDBOXES:
            sandbox = _SANDBOXES[word]
        elif word in _APPROVALS:
            approval = _APPROVALS[word]
        else:
            known = ", ".join((*_SANDBOXES, *_APPROVALS))
            raise UsageError(
                f"{word!r} is neither a sandbox nor an approval policy; there are {known}"
            )
    return ChangeSettings(agent=agent, sandbox=sandbox, approval=approval)
