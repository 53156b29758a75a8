"""The context that a model is told: instructions, initial messages, and later changes.

Instructions, tools and all earlier messages keep the same bytes during a conversation; a change of
permissions, date or working directory is appended before the next user message.
"""

from collections.abc import Iterable
from typing import Literal

from swarm.mailbox.contents.context_markers import (
    ENVIRONMENT_START,
    GUIDANCE_START,
    MOVED_START,
    PERMISSIONS_START,
    SKILLS_START,
    SPAWNED_START,
    unlisted_count,
    unlisted_line,
)
from swarm.mailbox.protocol.items import AnyItem, InputText, Message, text_message
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.mailbox.protocol.values.base import Value

from ...base.token_meter import estimate_tokens
from .context_blocks import (
    EnvironmentFacts,
    base_instructions,
    environment_text,
    guidance_text,
    is_short,
    is_skill_line,
    moved_text,
    permissions_text,
    skills_text,
    spawned_start,
    spawned_text,
    team_text,
)


class KnownContext(Value):
    """Context that the history already holds and that must not be repeated; None: not told."""

    permissions: str | None = None
    environment: str | None = None
    guidance: str | None = None  # the text alone, of the working directory
    skills: tuple[str, ...] = ()  # the lines of the list
    spawned: str | None = None  # of a child: the block that contains its path
    moved: str | None = None  # the block about the renamed folder of the project
    begun: bool = False  # the initial context was sent (it may be empty for a small model)


def instructions_for(spec: AgentSpec, model: ModelInfo) -> str:
    """Return the role's base instructions, else the built-in ones that fit the model."""
    return spec.role.base_instructions or base_instructions(model, spec.role)


def find_known_context(items: Iterable[AnyItem], *, cwd: str) -> KnownContext:
    """Return the context that a restored history's model was told last, in one pass."""
    known, head = KnownContext(), f"{GUIDANCE_START}{cwd}\n"
    for item in items:
        guidance = known.guidance
        # Other blocks are for subfolders.
        if (block := _text_starting_with(item, "user", head)) is not None:
            guidance = _instructions_in(block)
        known = KnownContext(
            permissions=_text_starting_with(item, "developer", PERMISSIONS_START)
            or known.permissions,
            environment=_text_starting_with(item, "user", ENVIRONMENT_START) or known.environment,
            guidance=guidance,
            skills=known.skills if (told := _skills_in(item)) is None else told,
            spawned=_text_starting_with(item, "user", SPAWNED_START)
            or _text_starting_with(item, "developer", SPAWNED_START)  # of older journals
            or known.spawned,
            moved=_text_starting_with(item, "developer", MOVED_START) or known.moved,
            begun=True,
        )
    return known


def context_items(
    spec: AgentSpec, *, place: EnvironmentFacts, model: ModelInfo, known: KnownContext
) -> tuple[tuple[Message, ...], KnownContext]:
    """Return the messages to add before a user's message, and the context told with them.

    First: one developer message (permissions, the team, the role's instructions) and one user
    message (AGENTS.md, environment, and last a child's own path, so that all before it is the same
    for all children of one parent). Later: only what changed. A child that took over its parent's
    history gets its own initial context too. A model with the short prompt gets only the role's
    instructions, and none at all if it can call no tools: they are about tools, and each line costs
    attention that a small model lacks.
    """
    is_brief = is_short(model, spec.role.prompt)
    team, spawned = team_text(spec, is_brief=is_brief), spawned_text(spec)
    is_told = spec.depth == 0 or (known.spawned or "").startswith(spawned_start(spec))
    begun, moved = known.begun and is_told, moved_text(spec) or None
    news = [moved] if moved and known.begun and moved != known.moved else []
    if model.short_prompt and spec.role.prompt != "full":
        short = _short_context(spec, model, begun=begun or (known.begun and spec.epoch > 1))
        context = KnownContext(spawned=spawned, moved=moved, begun=True)
        return (*_messages(news, []), *short), context
    permissions = _permissions(spec, is_brief=is_brief)
    environment = environment_text(place)
    rules, guidance = spec.inherited.context, spec.inherited.user_instructions
    developer = [permissions] if rules.permissions and permissions != known.permissions else []
    developer += news
    user = [environment] if rules.environment and environment != known.environment else []
    skills = _fitting_skills(spec, model)
    if not begun:
        told = (one.text for one in spec.parts.texts)
        own = (team, skills_text(skills), *told, spec.role.developer_instructions)
        developer += [text for text in own if text]
    elif skills != known.skills:
        developer.append(skills_text(skills, replaces=bool(known.skills)))
    if guidance != (known.guidance or ""):
        is_change = known.guidance is not None and begun
        if is_change or guidance:
            user.insert(0, guidance_text(guidance, cwd=spec.cwd, replaces=is_change))
    if spawned and not begun:
        user.append(spawned)
    return _messages(developer, user), KnownContext(
        permissions=permissions,
        environment=environment,
        guidance=guidance if guidance or known.guidance is not None else None,
        skills=skills,
        spawned=spawned or None,
        moved=moved,
        begun=True,
    )


def _permissions(spec: AgentSpec, *, is_brief: bool) -> str:
    return permissions_text(
        spec.limits,
        cwd=spec.cwd,
        copy=(spec.copy.origin, spec.copy.tree),
        is_locked=spec.role.locked,
        is_brief=is_brief,
    )


def _messages(developer: list[str], user: list[str]) -> tuple[Message, ...]:
    parts: tuple[tuple[Literal["developer", "user"], list[str]], ...] = (
        ("developer", developer), ("user", user),
    )  # fmt: skip
    return tuple(text_message(role, *texts) for role, texts in parts if texts)


def _fitting_skills(spec: AgentSpec, model: ModelInfo) -> tuple[str, ...]:
    """The first lines of skills that fit into their part of the model's window.

    A last line says how many are left out.
    """
    left, fitting = model.context_window * spec.inherited.context.skills_percent // 100, list[str]()
    unlisted = sum(map(unlisted_count, spec.skills))
    for line in spec.skills:
        tokens = estimate_tokens(len(line.encode()) + 1)
        if unlisted_count(line):
            continue
        if tokens <= left:
            left -= tokens
            fitting.append(line)
        else:
            unlisted += 1
    return (*fitting, unlisted_line(unlisted)) if unlisted else tuple(fitting)


def _short_context(spec: AgentSpec, model: ModelInfo, *, begun: bool) -> tuple[Message, ...]:
    is_about_tools = model.can_call_tools and not model.constrained_calls
    texts = [spec.role.developer_instructions] if is_about_tools else []
    texts += [one.brief for one in spec.parts.texts]
    texts = [] if begun else [text for text in texts if text]
    return (text_message("developer", *texts),) if texts else ()


def _instructions_in(block: str) -> str:
    return block.partition("<INSTRUCTIONS>\n")[2].removesuffix("\n</INSTRUCTIONS>")


def _skills_in(item: AnyItem) -> tuple[str, ...] | None:
    """The lines of the list of skills in a message; None if it has no list."""
    text = _text_starting_with(item, "developer", SKILLS_START)
    if text is None:
        return None
    return tuple(line for line in text.split("\n") if is_skill_line(line))


def _text_starting_with(item: AnyItem, role: str, start: str) -> str | None:
    if not isinstance(item, Message) or item.role != role:
        return None
    for part in item.content:
        if isinstance(part, InputText) and part.text.startswith(start):
            return part.text
    return None
