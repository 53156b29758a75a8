"""exec_command: run a script with the shell, in the sandbox, for as long as its yield time.

Rule guarded: the words that were judged are the words that run. A patch written as a shell command
is applied by us instead, with the patch's own rules.
"""

import msgspec

from swarm.mailbox.protocol.events import AnyCallDetail, CommandCall
from swarm.mailbox.protocol.items import AnyCall, FunctionCall
from swarm.mailbox.protocol.limits import DangerFullAccess
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..context.truncate import truncate_formatted
from ..exec.outcome import DEFAULT_EXEC_YIELD_MS, ExecFailed, ExecOutcome, ExecRequest
from ..patch.intercept import ImplicitPatch, PatchText, intercept
from ..policy.decide import Run, Verdict, decide
from ..policy.facts import SandboxPermissions, Wish, gather_facts
from .apply_patch import PatchDeed
from .errors import ToolFailed
from .router import decode_arguments
from .site import Site
from .spec import ABORTED_COMMAND, Listen, Outcome, Prepared, Schema, function_spec
from .texts import description_of

DEFAULT_OUTPUT_TOKENS = 10_000
MAY_BE_SANDBOX = (
    "The sandbox may have stopped this command: it failed in a way that a denied file or network "
    "access does."
)
_PROPERTIES: dict[str, Schema] = {
    "cmd": {"type": "string", "description": "The script."},
    "workdir": {
        "type": "string",
        "description": "Folder to run it in; relative to the working directory, which is used "
        "when this is left out.",
    },
    "shell": {"type": "string", "description": "Another shell than the default one."},
    "login": {
        "type": "boolean",
        "description": "Run as a login shell. Rarely needed: the environment of one is there "
        "already. Default false.",
    },
    "tty": {
        "type": "boolean",
        "description": "Give it a terminal, and keep its input open. Default false.",
    },
    "yield_time_ms": {
        "type": "number",
        "description": "How long to wait for its end, 250 to 30000. Default 10000.",
    },
    "max_output_tokens": {
        "type": "number",
        "description": "Longer output is cut in the middle. Default 10000.",
    },
}


class ExecCommandArguments(msgspec.Struct, frozen=True, kw_only=True):
    """As the model writes them. The last three come from models that know them from elsewhere."""

    cmd: str
    workdir: str = ""
    shell: str | None = None
    login: bool = False
    tty: bool = False
    yield_time_ms: int = DEFAULT_EXEC_YIELD_MS
    max_output_tokens: int | None = None
    sandbox_permissions: SandboxPermissions = "use_default"
    justification: str | None = None
    prefix_rule: tuple[str, ...] | None = None


class ExecCommand:
    """The tool."""

    name = "exec_command"
    parallel = True
    aborted_text = ABORTED_COMMAND

    def __init__(self, site: Site) -> None:
        self._site = site

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        return function_spec(self.name, description_of(self.name), _PROPERTIES, required=("cmd",))

    def accepts(self, call: AnyCall) -> bool:
        return isinstance(call, FunctionCall)

    async def prepare(self, call: AnyCall) -> Prepared:
        arguments = decode_arguments(call, ExecCommandArguments)
        argv = self._site.commands.shell_argv(arguments.cmd, shell=arguments.shell or None)
        if arguments.login:
            argv = (argv[0], "-lc", *argv[2:])
        folder = self._site.folder(arguments.workdir)
        match intercept(argv, self._site.cwd / folder):
            case ImplicitPatch(message=message):
                raise ToolFailed(message)
            case PatchText(text=text, cwd=cwd):
                return PatchDeed(self._site, text, cwd, asked_through=self.name)
            case None:
                return _CommandDeed(self._site, arguments, argv, folder)


class _CommandDeed:
    """One command, understood."""

    def __init__(
        self, site: Site, arguments: ExecCommandArguments, argv: tuple[str, ...], folder: str
    ) -> None:
        self._site, self._arguments, self._argv, self._folder = site, arguments, argv, folder

    @property
    def detail(self) -> AnyCallDetail:
        return CommandCall(
            script=self._arguments.cmd,
            argv=self._argv,
            cwd=self._folder,
            sandbox=self._site.stack,
            tty=self._arguments.tty,
        )

    def judge(self) -> Verdict:
        wish = Wish(
            permissions=self._arguments.sandbox_permissions,
            justification=self._arguments.justification,
        )
        return decide(gather_facts(self._argv, self._site.limits, wish))

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        policy = self._site.limits.sandbox if verdict.sandboxed else DangerFullAccess()
        request = ExecRequest(
            argv=self._argv,
            cwd=self._folder,
            policy=policy,
            tty=self._arguments.tty,
            yield_time_ms=self._arguments.yield_time_ms,
        )
        try:
            done = await self._site.commands.exec(request, listen)
        except ExecFailed as error:
            raise ToolFailed(str(error)) from error
        finally:
            self._site.seen.clear()
        return outcome_of(done, limit_tokens=self._arguments.max_output_tokens)


def outcome_of(done: ExecOutcome, *, limit_tokens: int | None) -> Outcome:
    """What the model reads of a command, line for line as the behaviour sheet has it (3.4)."""
    budget = DEFAULT_OUTPUT_TOKENS if limit_tokens is None else max(0, limit_tokens)
    lines = [f"Chunk ID: {done.chunk_id}", f"Wall time: {done.wall_time_s:.4f} seconds"]
    if done.exit_code is not None:
        lines.append(f"Process exited with code {done.exit_code}")
    if done.session_id is not None:
        lines.append(f"Process running with session ID {done.session_id}")
    lines.append(f"Original token count: {done.original_token_count}")
    lines += ["Output:", truncate_formatted(done.output, budget_tokens=budget)]
    if done.denied:
        lines.append(MAY_BE_SANDBOX)
    if done.warning:
        lines.append(f"Warning: {done.warning}")
    if done.moved_aside:
        moved = ", ".join(done.moved_aside)
        lines.append(f"Warning: these stood where nothing may be made and were moved away: {moved}")
    return Outcome(
        content="\n".join(lines),
        status="completed" if done.exit_code in (0, None) else "failed",
        exit_code=done.exit_code,
        session_id=done.session_id,
        shown=done.output,
    )
