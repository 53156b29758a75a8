"""exec_command: run a script with the shell in the sandbox and wait up to its yield time.

Exactly the judged command runs, with no more permissions than the approver was shown. A patch
written as a shell command is applied in this process instead, under the rules of apply_patch.
"""

import os
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from swarm.mailbox.protocol.approvals import CommandAction, ExtraPermissions, SandboxPermissions
from swarm.mailbox.protocol.events import AnyCallDetail, CommandCall
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly
from swarm.roles.base.login_shell import find_shell, shell_name

from ..base.truncate import CommandText
from ..exec.command_turn import CommandTurn
from ..exec.exec_outcome import (
    DEFAULT_EXEC_YIELD_MS,
    MAX_YIELD_MS,
    ExecFailed,
    ExecOutcome,
    ExecRequest,
)
from ..parts.patch.patch_interception import ImplicitPatch, PatchText, intercept_patch
from ..policy.approval_offers import command_key, commit_key, decide_retry, may_escalate
from ..policy.command_decision import Ask, PolicyDecision, Run, asks_without_rules, decide_command
from ..policy.command_facts import CommandFacts, EscalationRequest
from ..policy.command_summary import only_reads, shown_meanings
from ..policy.lasting_yes import LastingYes, find_lasting
from ..policy.permission_sets import covers
from ..policy.shell_parser import Words
from .apply_patch import PatchInvocation
from .command_effects import CommandEffects, find_effects
from .interface.function_tool import (
    HIDDEN,
    NUMBER,
    FunctionTool,
    decode_arguments,
    described,
    encode_schema,
)
from .interface.permission_arguments import (
    PermissionsArgument,
    check_permissions_argument,
    resolve_permissions,
)
from .interface.tool_context import ToolContext
from .interface.tool_interface import (
    ABORTED_COMMAND,
    Invocation,
    OnOutput,
    Proposal,
    ToolFailed,
    ToolResult,
    TurnTakingInvocation,
)

DEFAULT_OUTPUT_TOKENS = 10_000
MAY_BE_SANDBOX = (
    "The sandbox may have stopped this command: it failed in a way that a denied file or network "
    "access does."
)
OUTPUT_TOKENS = described("Longer output is cut in the middle; default 10000.", NUMBER)
_LOGIN = "the start-up files of a login shell can change where its programs are found"
# Offered only where approvals can be requested; accepted everywhere.
_ESCALATION = (
    "sandbox_permissions",
    "additional_permissions",
    "justification",
    "prefix_rule",
)
# Causes for which a remembered rule is proposed; other causes are about more than the words.
_PREFIX_RULE_CAUSES = frozenset({"untrusted", "dangerous", "escalation", "retry"})


_ZERO = (
    "the command has a zero character (\\u0000), which no program can be given; nothing was "
    "started. Let printf write it: printf 'a\\0b'"
)


class ExecCommandArguments(Struct, frozen=True, kw_only=True):
    """Arguments as the model writes them."""

    cmd: Annotated[str, described("The script.")]
    workdir: Annotated[str, described("Default: the working directory.")] = ""
    shell: Annotated[str | None, HIDDEN] = None  # another one than the person's
    login: Annotated[bool, HIDDEN] = False  # the environment of a login shell is there without
    tty: Annotated[bool, described("Give it a terminal and keep its input open.")] = False
    yield_time_ms: Annotated[
        int, described("How long to wait for its end: 250 to 30000, default 10000.", NUMBER)
    ] = DEFAULT_EXEC_YIELD_MS
    max_output_tokens: Annotated[int | None, OUTPUT_TOKENS] = None
    sandbox_permissions: Annotated[
        SandboxPermissions,
        described("Leave it out unless the sandbox would make the command fail."),
    ] = "use_default"
    additional_permissions: Annotated[
        PermissionsArgument | None,
        described("With `with_additional_permissions` only."),
    ] = None
    justification: Annotated[
        str | None,
        described("One short question."),
    ] = None
    prefix_rule: Annotated[
        tuple[str, ...] | None,
        described('First words to allow from now on: ["<program>", "<word>"].'),
    ] = None


class ExecCommandTool(FunctionTool):
    """The exec_command tool."""

    name = "exec_command"
    arguments = ExecCommandArguments
    parallel = True
    aborted_text = ABORTED_COMMAND

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._shell = shell_name(find_shell(context.spec.environment))

    def description(self) -> str:
        text = super().description().replace("{shell}", self._shell)
        may_wait = self._context.spec.role.tools.allows("write_stdin")
        return text if may_wait else f"{text.partition('. ')[0]}."

    def parameters(self) -> bytes:
        may_ask = may_escalate(self._context.limits, is_locked=self._context.is_locked)
        return encode_schema(self.arguments, without=() if may_ask else _ESCALATION)

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, ExecCommandArguments)
        if "\0" in arguments.cmd:
            raise ToolFailed(_ZERO)
        argv = self._context.commands.shell_argv(arguments.cmd, shell=arguments.shell or None)
        if arguments.login:
            argv = (argv[0], "-lc", *argv[2:])
        folder = self._context.resolve_folder(arguments.workdir)
        extra = self._extra(arguments, folder)
        match intercept_patch(argv, self._context.cwd / folder):
            case ImplicitPatch(message=message):
                raise ToolFailed(message)
            case PatchText(text=text, cwd=cwd):
                return PatchInvocation(self._context, text, cwd, asked_through=self.name)
            case None:
                planned = PlannedCommand(call.call_id, argv, folder, extra)
                if self._context.may_leave_sandbox:
                    await self._context.commands.load_environment()  # the PATH of its programs
                facts = _facts(self._context, arguments, planned)
                if arguments.login and not facts.unheld:
                    facts = msgspec.structs.replace(facts, unheld=_LOGIN)
                effects = await find_effects(self._context, facts, folder)
                return _CommandInvocation(self._context, arguments, planned, facts, effects)

    def _extra(self, arguments: ExecCommandArguments, folder: str) -> ExtraPermissions | None:
        check_permissions_argument(arguments.sandbox_permissions, arguments.additional_permissions)
        if arguments.additional_permissions is None:
            return None
        may_read = self._context.may_read
        extra = resolve_permissions(
            arguments.additional_permissions, Path(folder), may_read=may_read
        )
        if past := self._context.find_past_copy(extra.write):
            raise ToolFailed(past)
        return extra


class PlannedCommand(msgspec.Struct, frozen=True):
    """The command to start: words, folder, and its permissions beyond the sandbox."""

    call_id: str
    argv: Words
    folder: str
    extra: ExtraPermissions | None


def _facts(
    context: ToolContext, arguments: ExecCommandArguments, planned: PlannedCommand
) -> CommandFacts:
    extra = planned.extra
    return context.command_facts(
        planned.argv,
        EscalationRequest(
            permissions=arguments.sandbox_permissions,
            justification=arguments.justification,
            extra=extra,
            pre_approved=extra is not None and covers(context.granted.now, extra),
        ),
        folder=planned.folder,
    )


class _CommandInvocation(TurnTakingInvocation):
    """One prepared command. Its facts are those at the time of preparation."""

    def __init__(
        self,
        context: ToolContext,
        arguments: ExecCommandArguments,
        planned: PlannedCommand,
        facts: CommandFacts,
        effects: CommandEffects,
    ) -> None:
        self._context, self._arguments, self._planned = context, arguments, planned
        self._effects = effects
        self._facts = msgspec.structs.replace(
            facts,
            loss=effects.loss,
            repository=effects.repository,
            records_only=effects.records_only,
        )
        self._verdict = decide_command(self._facts)
        self._meanings = shown_meanings(facts)
        # A command with a terminal is talked to, and may never end: it takes no turn.
        self._heavy = None if arguments.tty else context.parts.command_turns.find(planned.argv)
        self._turn: CommandTurn | None = None  # waited for, and not yet used by a run

    @property
    def takes_turns(self) -> bool:
        return self._heavy is not None

    async def wait_turn(self) -> None:
        if self._heavy is not None:
            self.drop_turn()
            turns = self._context.parts.command_turns
            self._turn = await turns.take(self._heavy, self._planned.folder)

    def drop_turn(self) -> None:
        if self._turn is not None:
            self._turn.end(None)
            self._turn = None

    @property
    def detail(self) -> AnyCallDetail:
        run = self._verdict.then if isinstance(self._verdict, Ask) else self._verdict
        leaves = isinstance(run, Run) and not run.sandboxed
        return CommandCall(
            script=self._arguments.cmd,
            argv=self._planned.argv,
            cwd=self._planned.folder,
            sandbox="none" if leaves else self._context.sandbox_stack,
            tty=self._arguments.tty,
            parsed_cmd=self._meanings,
        )

    def judge(self) -> PolicyDecision:
        return self._verdict

    def propose(self, ask: Ask) -> Proposal:
        action = self._action(ask.then)
        prefix: Words = ()
        exact = False
        if ask.cause in _PREFIX_RULE_CAUSES and not action.unheld:
            # Imported by the few commands that need approval.
            from swarm.roles.rules.program_effects import leaves_open

            from ..policy.rule_matching import propose_prefix

            prefix = propose_prefix(
                self._facts,
                self._arguments.prefix_rule or (),
                needs_asking=lambda command: asks_without_rules(command, self._facts),
            )
            exact = bool(prefix) and not leaves_open(prefix)
        return Proposal(action=action, keys=self._keys(ask, action), prefix=prefix, exact=exact)

    def _keys(self, ask: Ask, action: CommandAction) -> Words:
        """Return the approval keys; none for a destructive command, which is approved each time."""
        match ask.cause:
            case "destructive":
                return ()
            case _ if action.unheld:
                return ()  # the same words may start another program the next time
            case "commit":
                return (commit_key(action.commits_in),)
            case _:
                return (command_key(action),)

    def reconsider(self, ran: Run) -> Run | Ask | None:
        return decide_retry(self._facts, self._verdict, ran)

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        is_held = not verdict.sandboxed and not self._facts.unheld
        request = ExecRequest(
            argv=self._planned.argv,
            cwd=self._planned.folder,
            held_from=self._context.writable_places() if is_held else None,
            policy=self._context.limits.sandbox if verdict.sandboxed else DangerFullAccess(),
            extra=verdict.extra,
            commits_in=verdict.commits_in,
            tty=self._arguments.tty,
            yield_time_ms=self._yield_ms(),
        )
        if self._effects.keep:
            await self._context.keep_files(self._planned.call_id, self._effects.keep)
        turn, self._turn = self._turn, None
        turn = turn or self._context.parts.command_turns.observe(request.argv, request.cwd)
        try:
            done = await self._context.commands.exec(request, listen, turn)
        except ExecFailed as error:
            raise ToolFailed(str(error)) from error
        finally:
            self._context.patched_digests.clear()
        if done.session_id is not None:
            first = self._verdict
            asked = first.cause if isinstance(first, Ask) else None
            self._context.record_started(done.session_id, self._action(verdict), asked=asked)
        return exec_result(
            done,
            limit_tokens=self._arguments.max_output_tokens,
            can_wait=self._context.offers("write_stdin"),
            notice=verdict.notice or self._commit_notice(verdict, done),
        )

    def _commit_notice(self, verdict: Run, done: ExecOutcome) -> str:
        is_refused = done.denied or ".git/" in done.output  # `git commit …; git log` succeeds
        if not is_refused or verdict.commits_in:
            return ""
        from ..policy.commit_notices import commit_notice  # only for the few that failed so

        return commit_notice(self._facts, done.output)

    def _yield_ms(self) -> int:
        """Without write_stdin nothing can wait for the command later, so its call waits longer."""
        wanted = self._arguments.yield_time_ms
        return wanted if self._context.offers("write_stdin") else max(wanted, MAX_YIELD_MS)

    def files_to_watch(self, run: Run) -> tuple[str, ...] | None:
        """None only for commands that cannot write or are known to only read."""
        confined = run.sandboxed and run.extra is None
        if confined and isinstance(self._context.limits.sandbox, ReadOnly):
            return None
        return None if only_reads(self._facts) else ()

    def _action(self, run: Run) -> CommandAction:
        return CommandAction(
            argv=self._planned.argv,
            cwd=self._planned.folder,
            script=self._arguments.cmd,
            tty=self._arguments.tty,
            permissions=self._arguments.sandbox_permissions,
            extra=self._planned.extra if run.sandboxed else None,
            sandboxed=run.sandboxed,
            commits_in=run.commits_in,
            parsed_cmd=self._meanings,
            resolved_cwd=_real_folder(self._planned.folder),
            unheld="" if run.sandboxed else self._facts.unheld or self._lasting.why_not,
            files=LastingYes().files if run.sandboxed else self._lasting.files,
        )

    @cached_property
    def _lasting(self) -> LastingYes:
        """What a yes to it, outside of the sandbox, depends on; as it is when it is asked about."""
        words = tuple(one.words for one in self._facts.commands)
        here = self._context.surroundings(self._planned.folder)
        return find_lasting(self._planned.argv, words, here)


def _real_folder(folder: str) -> str:
    """Where the links of a folder lead; "" if they lead nowhere else."""
    real = os.path.realpath(folder)
    return "" if real == folder else real


def exec_result(
    done: ExecOutcome, *, limit_tokens: int | None, can_wait: bool = True, notice: str = ""
) -> ToolResult:
    """Return a command's result in the layout that the model reads.

    `can_wait` False: no tool that the model has takes the session's id, so it is not told.
    `notice`: what else the model should know of how it ran.
    """
    budget = DEFAULT_OUTPUT_TOKENS if limit_tokens is None else max(0, limit_tokens)
    lines = [f"Wall time: {done.wall_time_s:.4f} seconds"]
    if done.exit_code is not None:
        lines.append(f"Process exited with code {done.exit_code}")
    if done.session_id is not None:
        running = f"with session ID {done.session_id}" if can_wait else "in the background"
        lines.append(f"Process running {running}")
    lines.append(f"Original token count: {done.original_token_count}")
    head = "\n".join([*lines, "Output:", ""])
    notes = [MAY_BE_SANDBOX] if done.denied else []
    notes += [*done.blocked, *([notice] if notice else [])]
    if done.warning:
        notes.append(f"Warning: {done.warning}")
    if done.moved_aside:
        moved = ", ".join(done.moved_aside)
        notes.append(f"Warning: these came to be where nothing may be made: {moved}")
    tail = "".join(f"\n{note}" for note in notes)
    return ToolResult(
        content=CommandText(head=head, output=done.output, tail=tail, budget_tokens=budget),
        status="completed" if done.exit_code in (0, None) and not done.moved_aside else "failed",
        exit_code=done.exit_code,
        session_id=done.session_id,
        shown=done.output,
        denied=done.denied,
    )
