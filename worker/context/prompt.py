"""What a model is told before and around the conversation, and what of it is new.

Rule guarded: instructions, tools and everything said before stay the same bytes over a
conversation's life; a change of rights, date or place is appended before the next user message.
"""

from collections.abc import Iterable

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.items import AnyItem, InputText, Message, text_message
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import AgentSpec

from .fragments import (
    ENVIRONMENT_START,
    PERMISSIONS_START,
    Place,
    base_instructions,
    environment_text,
    guidance_text,
    permissions_text,
)


class Told(Value):
    """What the history already says of permissions and environment; None = nothing."""

    permissions: str | None = None
    environment: str | None = None
    begun: bool = False  # the initial context is there (it may be empty for a small model)


def instructions_for(spec: AgentSpec, model: ModelInfo) -> str:
    """The base instructions: the role's own, else the built-in ones that fit the model."""
    return spec.role.base_instructions or base_instructions(short=model.short_prompt)


def told_by(items: Iterable[AnyItem]) -> Told:
    """Read from a restored history what its model was told last. Walks it once."""
    told = Told()
    for item in items:
        told = Told(
            permissions=_part(item, "developer", PERMISSIONS_START) or told.permissions,
            environment=_part(item, "user", ENVIRONMENT_START) or told.environment,
            begun=True,
        )
    return told


def context_items(
    spec: AgentSpec, *, place: Place, model: ModelInfo, told: Told
) -> tuple[tuple[Message, ...], Told]:
    """The messages to add before a user's message, and what is then told.

    At the beginning: one developer message (permissions, the role's instructions) and one of the
    user (AGENTS.md, environment). Later only what changed. A model with the short prompt gets
    the role's instructions alone, and not even those when it can call no tools: they speak of
    tools, and each line more costs it attention that it does not have.
    """
    if model.short_prompt:
        if told.begun or not (spec.role.developer_instructions and model.can_call_tools):
            return (), Told(begun=True)
        own = text_message("developer", spec.role.developer_instructions)
        return (own,), Told(begun=True)
    permissions = permissions_text(spec.limits, cwd=spec.cwd)
    environment = environment_text(place)
    developer = [permissions] if permissions != told.permissions else []
    user = [environment] if environment != told.environment else []
    if not told.begun:
        if spec.role.developer_instructions:
            developer.append(spec.role.developer_instructions)
        if spec.user_instructions:
            user.insert(0, guidance_text(spec.user_instructions, cwd=spec.cwd))
    messages: list[Message] = []
    if developer:
        messages.append(text_message("developer", *developer))
    if user:
        messages.append(text_message("user", *user))
    return tuple(messages), Told(permissions=permissions, environment=environment, begun=True)


def _part(item: AnyItem, role: str, start: str) -> str | None:
    if not isinstance(item, Message) or item.role != role:
        return None
    for part in item.content:
        if isinstance(part, InputText) and part.text.startswith(start):
            return part.text
    return None
