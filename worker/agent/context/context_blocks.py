"""Context blocks that are not a person's input: permissions, environment, team, abort notes, mail.

The same facts give the same bytes, so that a provider's prompt cache stays valid. A changed fact is
appended as a new block; an earlier block is never edited.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.ids import ROOT_PATH, AgentPath, parent_path
from swarm.mailbox.base.path_rules import denies_reading, without_writing
from swarm.mailbox.contents.context_markers import (
    ABORTED_END,
    ABORTED_START,
    ENVIRONMENT_END,
    ENVIRONMENT_START,
    GUIDANCE_START,
    MOVED_END,
    MOVED_START,
    PERMISSIONS_END,
    PERMISSIONS_START,
    SKILLS_END,
    SKILLS_START,
    SPAWNED_END,
    SPAWNED_START,
    TEAM_END,
    TEAM_START,
    skill_block,
    unlisted_count,
)
from swarm.mailbox.parts.tool_names import TOOL_NAMES
from swarm.mailbox.protocol.items import (
    ContentPart,
    InputImage,
    InputText,
    Message,
    OutputText,
    text_message,
)
from swarm.mailbox.protocol.ops import (
    CommandInput,
    ImageInput,
    Mail,
    SkillInput,
    TextInput,
    UserInputPart,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.settings import PromptSize, ToolChoice
from swarm.mailbox.protocol.spec import AgentSpec, RoleBrief
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    Access,
    DangerFullAccess,
    Limits,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)

from ...policy.approval_offers import may_ask, may_escalate

_MAX_PROFILE_PATHS = 40
_NO_CHOICE = RoleBrief()
_TOOL_LINE = re.compile(r"- `(\w+)`")
_ACCESS_TEXTS: dict[Access, str] = {
    "write": "May be written",
    "read": "May be read",
    "deny": "Closed",
}

_HERE = Path(__file__).parent
_TEXTS = {  # read once, at import: a forked agent then opens no file for them
    path.stem: path.read_text(encoding="utf-8").strip() for path in sorted(_HERE.glob("*.md"))
}
_MAIL_TYPES = {
    "new_task": "NEW_TASK",
    "followup": "NEW_TASK",
    "message": "MESSAGE",
    "final_answer": "FINAL_ANSWER",
}
_NO_SKILLS = "(none)"
RESULT_KNOWN = "(wait_agent has given you this answer already)"

# Children named in the environment block; without a limit each turn could name a thousand.
MAX_SUBAGENTS = 32


class EnvironmentFacts(Value):
    """Working directory, time and subagents, as told to the model."""

    cwd: str
    date: str  # YYYY-MM-DD, local
    timezone: str = "Etc/UTC"
    shell: str = "bash"
    subagents: tuple[tuple[str, str], ...] = ()  # the agent's newest children: name, nickname
    # Children not named: the block is sent again whenever its list changes.
    older_subagents: int = 0


def harness_text(name: str) -> str:
    """Return one of the texts beside this file, by its name without `.md`."""
    return _TEXTS[name]


def is_short(model: ModelInfo, prompt: PromptSize) -> bool:
    """True if instructions and context are short: as the role says, else as the model needs."""
    return prompt == "short" or (prompt == "" and model.is_small)


def base_instructions(model: ModelInfo, choice: RoleBrief = _NO_CHOICE) -> str:
    """Return the built-in base instructions without the lines about tools that the role takes away.

    A few sentences for a small model, or where the role asks for them.
    """
    if model.constrained_calls:
        return _TEXTS["base_constrained"]
    if not model.can_call_tools:
        return _TEXTS["base_short" if is_short(model, choice.prompt) else "base"]
    if is_short(model, choice.prompt):
        return _TEXTS["base_tools_short"]
    lines = _TEXTS["base"].split("\n")
    return "\n".join(line for line in lines if _is_about_offered(line, choice.tools))


def _is_about_offered(line: str, tools: ToolChoice) -> bool:
    """False for a line that begins with a tool which was taken away."""
    found = _TOOL_LINE.match(line)
    return found is None or found[1] not in TOOL_NAMES or tools.allows(found[1])


def permissions_text(
    limits: Limits,
    *,
    cwd: str,
    copy: tuple[str, str] = ("", ""),
    is_locked: bool = False,
    is_brief: bool = False,
) -> str:
    """Return the `<permissions instructions>` block: sandbox, approvals, writable roots.

    `copy`: the project and the copy of it in which the agent works, if that is another folder.
    `is_brief`: without what there is to know about approvals.
    """
    if only_merges := limits.only_merges:
        sandbox = without_writing(limits.sandbox)
        limits, is_locked = msgspec.structs.replace(limits, sandbox=sandbox), True
    parts = [_sandbox_text(limits)]
    if only_merges:
        parts.append(_TEXTS["only_merges"])
    if not is_brief:
        parts.append(_approval_text(limits, is_locked=is_locked))
    if isinstance(limits.sandbox, ProfilePolicy):
        parts += _profile_lines(limits.sandbox)
    if isinstance(limits.sandbox, WorkspaceWrite):
        roots = ", ".join(f"`{root}`" for root in (cwd, *limits.sandbox.writable_roots))
        verb = "roots are" if limits.sandbox.writable_roots else "root is"
        parts.append(f"The writable {verb} {roots}.")
    if limits.unix_sockets.allow and not isinstance(limits.sandbox, DangerFullAccess):
        sockets = ", ".join(f"`{path}`" for path in limits.unix_sockets.allow)
        parts.append(f"Unix sockets of other programs that commands may connect to: {sockets}.")
    if limits.isolation == "copy":
        project, tree = copy
        where = "in_other_folder" if tree else "at_usual_path"
        place = _TEXTS[where].replace("{copy}", tree).replace("{project}", project)
        reads = isinstance(limits.sandbox, ReadOnly) and not limits.planning
        parts.append(f"{place} {_TEXTS['reads_copy' if reads else 'in_copy']}")
    if limits.planning:
        parts.append(_TEXTS["plan_mode"])
    body = "\n".join(parts)
    return f"{PERMISSIONS_START}\n{body}\n{PERMISSIONS_END}"


def _sandbox_text(limits: Limits) -> str:
    match limits.sandbox:
        case ReadOnly(network_access=network):
            text = _TEXTS["sandbox_read_only"]
        case WorkspaceWrite(network_access=network):
            text = _TEXTS["sandbox_workspace_write"]
        case ProfilePolicy(network_access=network):
            text = _TEXTS["sandbox_profile"]
        case DangerFullAccess():
            return _TEXTS["sandbox_danger_full_access"]
    word = "enabled" if network else "restricted"
    if limits.network is not None and not network:
        word += ": a proxy, which the usual variables name, lets through what is allowed"
    return text.replace("{network}", word)


def _approval_text(limits: Limits, *, is_locked: bool) -> str:
    reviewer = "a reviewer" if limits.reviewer == "guardian" else "a person"
    return _TEXTS[_approval_name(limits, is_locked=is_locked)].replace("{reviewer}", reviewer)


def _approval_name(limits: Limits, *, is_locked: bool) -> str:
    if limits.approval == "never":
        return "approval_never"
    if is_locked:
        return "approval_locked"
    if not may_ask(limits):
        return "approval_nobody"
    if limits.approval != "on-request":
        return f"approval_{limits.approval.replace('-', '_')}"
    if isinstance(limits.sandbox, DangerFullAccess):
        return "approval_full"
    may_leave = may_escalate(limits, is_locked=is_locked)
    return "approval_on_request" if may_leave else "approval_muted"


def environment_text(place: EnvironmentFacts) -> str:
    """Return the `<environment_context>` block."""
    lines = (
        ENVIRONMENT_START,
        f"  <cwd>{place.cwd}</cwd>",
        f"  <shell>{place.shell}</shell>",
        f"  <current_date>{place.date}</current_date>",
        f"  <timezone>{place.timezone}</timezone>",
        *_subagents_lines(place),
        ENVIRONMENT_END,
    )
    return "\n".join(lines)


def moved_text(spec: AgentSpec) -> str:
    """Return what an agent is told of the renamed folder of its project; "" if there is none."""
    if not spec.inherited.moves:
        return ""
    steps = "\n".join(f"- `{move.before}` is now `{move.now}`" for move in spec.inherited.moves)
    note = _TEXTS["folder_moved"].replace("{moves}", steps).replace("{cwd}", spec.cwd)
    return f"{MOVED_START}\n{note}\n{MOVED_END}"


def _subagents_lines(place: EnvironmentFacts) -> list[str]:
    if not place.subagents:
        return []
    lines = [
        f"    - {name}: {nickname}" if nickname else f"    - {name}"
        for name, nickname in place.subagents
    ]
    if place.older_subagents:
        lines.append(f"    - and {place.older_subagents} older ones; list_agents names them")
    return ["  <subagents>", *lines, "  </subagents>"]


def guidance_text(instructions: str, *, cwd: str, replaces: bool = False) -> str:
    """Return the AGENTS.md block of the joined chain, or of one folder's own file.

    Args:
        instructions: The text.
        cwd: The folder that it applies to.
        replaces: The model was told other instructions for the same folder before.
    """
    note = f"{_TEXTS['guidance_again']}\n\n" if replaces else ""
    return f"{GUIDANCE_START}{cwd}\n\n{note}<INSTRUCTIONS>\n{instructions}\n</INSTRUCTIONS>"


def team_text(spec: AgentSpec, *, is_brief: bool = False) -> str:
    """Return what an agent is told about its team; "" for an agent without a team.

    `is_brief`: without what there is to know about starting agents.
    It is the same for all children of one parent, so that they share it in a prompt cache.
    """
    may_grow = spec.may_spawn and spec.role.tools.allows("spawn_agent")
    may_grow, is_child = may_grow and not is_brief, spec.depth > 0
    if not (may_grow or is_child):
        return ""
    parts = [_TEXTS["team_child"]] if is_child else []
    if may_grow:
        parts += [_TEXTS["team_grow" if is_child else "team_root"], _TEXTS["team_rules"]]
        if spec.team.max_agents:
            parts.append(_TEXTS["team_places"].format(count=spec.team.max_agents))
    parts.append(_TEXTS["team_letters"])
    return "\n".join((TEAM_START, *parts, TEAM_END))


def spawned_text(spec: AgentSpec) -> str:
    """Return what tells a child apart from its siblings; "" for the root.

    It names the child's path, so the block in a history taken over from its parent is not taken
    for the child's own.
    """
    if spec.depth == 0:
        return ""
    parent = parent_path(AgentPath(spec.path)) or ROOT_PATH
    claims = ", ".join(f"`{path}`" for path in spec.claims)
    owned = f" Yours to write: {claims}." if claims else ""
    return f"{spawned_start(spec)}; `{parent}` started you.{owned}\n{SPAWNED_END}"


def spawned_start(spec: AgentSpec) -> str:
    """Return the start of a child's own block."""
    return f"{SPAWNED_START}\nYou are `{spec.path}`"


def turn_aborted_message(*, commands_ended: bool = False) -> Message:
    """Return the note after an interrupted turn, whose background commands ended or still run."""
    words = _TEXTS["turn_aborted_commands_ended" if commands_ended else "turn_aborted"]
    text = f"{ABORTED_START}\n{words}\n{ABORTED_END}"
    return Message(role="user", content=(InputText(text=text),))


def last_request_message() -> Message:
    """Return the notice that the budget is used up and one request is left for the answer."""
    return text_message("developer", _TEXTS["last_call"])


def repetition_message(times: int, *, waits: bool = False) -> Message:
    """Return the notice to a model that repeats its calls, or that waits without any change."""
    name = "repeating_wait" if waits else "repeating"
    return text_message("developer", _TEXTS[name].format(times=times))


def mail_message(mail: Mail, *, known: bool = False) -> Message:
    """Return another agent's mail as the recipient's model sees it.

    Args:
        mail: The mail.
        known: The recipient got the same content as the result of a wait: it is not repeated.
    """
    text = (
        f"Message Type: {_MAIL_TYPES[mail.kind]}\n"
        f"Task name: {mail.recipient}\nSender: {mail.author}\n"
        f"Payload:\n{RESULT_KNOWN if known else mail.content}"
    )
    return Message(role="assistant", content=(OutputText(text=text),), author=mail.author)


def withheld_message(reason: str) -> Message:
    """Return what stands in place of a person's input that a hook has refused."""
    return text_message("developer", f"A hook withheld a message of the person: {reason}")


def skills_text(lines: Sequence[str], *, replaces: bool = False) -> str:
    """Return the block that lists skills; "" without any, unless it replaces an earlier list."""
    if replaces:
        told = lines or (_NO_SKILLS,)
        return "\n".join((SKILLS_START, _TEXTS["skills_again"], *told, SKILLS_END))
    return "\n".join((SKILLS_START, _TEXTS["skills"], *lines, SKILLS_END)) if lines else ""


def is_skill_line(line: str) -> bool:
    """True for a line of the list, unlike the words before it."""
    is_skill = line.startswith("- ") and " (file: " in line and line.endswith(")")
    return is_skill or unlisted_count(line) > 0


def skill_messages(parts: tuple[UserInputPart, ...]) -> list[Message]:
    """Return a message for each skill that an input names."""
    return [
        text_message("user", skill_block(part)) for part in parts if isinstance(part, SkillInput)
    ]


def command_output_message(command: str, line: str, number: int, text: str) -> Message:
    """Return what the model reads of a line that a command file had run."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`{3,}", text)), default=2))
    return text_message(
        "user", f"Output {number} of /{command}, of the command `{line}`:\n{fence}\n{text}\n{fence}"
    )


def user_message(parts: tuple[UserInputPart, ...]) -> Message:
    """Return a person's text and images as a message; tags around each image name it."""
    content: list[ContentPart] = []
    for part in parts:
        match part:
            case SkillInput() | CommandInput():
                pass  # messages of their own
            case TextInput(text=text):
                content.append(InputText(text=text))
            case ImageInput(image_url=url, name=name):
                label = name.replace('"', "'").replace(">", " ").replace("\n", " ")
                opening = f'<image name="{label}">' if label else "<image>"
                content.append(InputText(text=opening))
                content.append(InputImage(image_url=url))
                content.append(InputText(text="</image>"))
    return Message(role="user", content=tuple(content))


def _profile_lines(policy: ProfilePolicy) -> list[str]:
    """Return one line for each kind of access in the profile."""
    lines: list[str] = []
    for access, verb in _ACCESS_TEXTS.items():
        paths = [rule.path for rule in policy.rules if rule.access == access]
        paths += policy.deny_globs if access == "deny" else ()
        if paths:
            shown = ", ".join(f"`{path}`" for path in paths[:_MAX_PROFILE_PATHS])
            more = len(paths) - _MAX_PROFILE_PATHS
            lines.append(f"{verb}: {shown}{f', and {more} more' if more > 0 else ''}.")
    if denies_reading(policy):
        lines.append("No command runs outside of the sandbox: `require_escalated` is refused.")
    return lines
