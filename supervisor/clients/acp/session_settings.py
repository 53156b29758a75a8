"""Modes and options of a session, as an editor shows them, and what they mean for a run. Pure."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from acp.schema import (
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.records import AgentSpawned, Record, SettingsChanged
from swarm.mailbox.protocol.settings import EFFORTS, SandboxMode
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import AskForApproval, Limits, ReadOnly, WorkspaceWrite

from ..client import NewRunOptions

ModeId: TypeAlias = Literal["default", "read-only", "ask", "auto"]


class SessionModeRights(Value):
    """What agents may do in a mode without a question. None: as the configuration says."""

    name: str
    about: str
    sandbox: SandboxMode | None = None
    approval: AskForApproval | None = None


MODES: dict[ModeId, SessionModeRights] = {
    "default": SessionModeRights(
        name="Default",
        about="What your configuration says, or what the run was started with.",
    ),
    "read-only": SessionModeRights(
        name="Read only",
        about="Agents read; what would write is asked about.",
        sandbox="read-only",
        approval="on-request",
    ),
    "ask": SessionModeRights(
        name="Ask",
        about="Agents write in the project; every command that is not known to only read is asked.",
        sandbox="workspace-write",
        approval="untrusted",
    ),
    "auto": SessionModeRights(
        name="Auto",
        about="Agents work in the project's sandbox; what would leave it is asked about.",
        sandbox="workspace-write",
        approval="on-request",
    ),
}
OptionId: TypeAlias = Literal["mode", "model", "effort"]
_CATEGORIES: dict[OptionId, Literal["mode", "model", "thought_level"]] = {
    "mode": "mode", "model": "model", "effort": "thought_level",
}  # fmt: skip
_MODEL_CHARS = 200
_DEFAULT = "default"
_EFFORT_CHOICES = (_DEFAULT, *EFFORTS)


class SessionSettings(Value):
    """What a person chose in the editor. "default": as the configuration says."""

    mode: ModeId = "default"
    model: str = _DEFAULT
    effort: str = _DEFAULT

    def run_options(self) -> NewRunOptions:
        """For a new run."""
        rights = MODES[self.mode]
        options = NewRunOptions(reviewer="person")
        if rights.sandbox is not None:
            options["sandbox"] = rights.sandbox
        if rights.approval is not None:
            options["approval"] = rights.approval
        if self.model != _DEFAULT:
            options["model"] = self.model
        if self.effort != _DEFAULT:
            options["effort"] = self.effort
        return options

    def change_from(self, before: "SessionSettings") -> ChangeSettings | None:
        """The request that brings the root of a run here; None if nothing differs.

        Raises UsageError for a change back to the default mode, which only a start has.
        """
        if self == before:
            return None
        rights = MODES[self.mode] if self.mode != before.mode else None
        if rights is not None and rights.sandbox is None:
            raise UsageError(
                "the default mode holds from the start of a session only; choose "
                f"{', '.join(known for known in MODES if known != self.mode)}"
            )
        return ChangeSettings(
            agent=ROOT_PATH,
            model=None if self.model == before.model else _or_empty(self.model),
            effort=None if self.effort == before.effort else _or_empty(self.effort),
            sandbox=None if rights is None else rights.sandbox,
            approval=None if rights is None else rights.approval,
            widen=rights is not None,  # the person chose it in the editor
        )


def settings_of_records(records: Iterable[Record]) -> SessionSettings:
    """What a run's root has now, by its records in order."""
    limits, model, effort = Limits(), None, None
    for record in records:
        match record.body:
            case AgentSpawned(path=path) as body if path == ROOT_PATH:
                limits, model, effort = body.limits, body.model, body.effort
            case SettingsChanged(settings=settings) if record.agent == ROOT_PATH:
                limits, model, effort = settings.limits, settings.model, settings.effort
            case _:
                pass
    return SessionSettings(
        mode=_mode_of(limits), model=model or _DEFAULT, effort=effort or _DEFAULT
    )


def _mode_of(limits: Limits) -> ModeId:
    match limits.sandbox, limits.approval:
        case ReadOnly(), "on-request":
            return "read-only"
        case WorkspaceWrite(), "untrusted":
            return "ask"
        case WorkspaceWrite(), "on-request":
            return "auto"
        case _:
            return "default"


def _or_empty(value: str) -> str:
    return "" if value == _DEFAULT else value


def parse_mode(wanted: str) -> ModeId:
    """Raises UsageError that lists the modes."""
    for known in MODES:
        if known == wanted:
            return known
    raise UsageError(f"no mode {wanted[:100]!r}; there are {', '.join(MODES)}")


def mode_state(settings: SessionSettings) -> SessionModeState:
    modes = [
        SessionMode(id=known, name=rights.name, description=rights.about)
        for known, rights in MODES.items()
    ]
    return SessionModeState(current_mode_id=settings.mode, available_modes=modes)


def config_options(
    settings: SessionSettings, models: tuple[str, ...]
) -> list[SessionConfigOptionSelect | SessionConfigOptionBoolean]:
    """Mode, model and effort; what is chosen is listed even if it is unknown."""
    names = dict.fromkeys((_DEFAULT, *models, settings.model))
    efforts = dict.fromkeys((*_EFFORT_CHOICES, settings.effort))
    modes = [
        SessionConfigSelectOption(value=known, name=rights.name, description=rights.about)
        for known, rights in MODES.items()
    ]
    return [
        _select("mode", "Mode", settings.mode, modes),
        _select("model", "Model", settings.model, _plain(names)),
        _select("effort", "Reasoning effort", settings.effort, _plain(efforts)),
    ]


def _plain(values: Iterable[str]) -> list[SessionConfigSelectOption]:
    return [SessionConfigSelectOption(value=value, name=value) for value in values]


def _select(
    option_id: OptionId, name: str, current: str, options: list[SessionConfigSelectOption]
) -> SessionConfigOptionSelect:
    return SessionConfigOptionSelect(
        type="select", id=option_id, name=name, category=_CATEGORIES[option_id],
        current_value=current, options=options,
    )  # fmt: skip


def with_mode(settings: SessionSettings, mode: ModeId) -> SessionSettings:
    return msgspec.structs.replace(settings, mode=mode)


def with_option(settings: SessionSettings, option_id: str, value: str) -> SessionSettings:
    """The settings with another value. Raises UsageError for an unknown option or value."""
    if option_id == "mode":
        return with_mode(settings, parse_mode(value))
    if option_id == "model" and 0 < len(value) <= _MODEL_CHARS:
        return msgspec.structs.replace(settings, model=value)
    if option_id == "effort" and value in _EFFORT_CHOICES:
        return msgspec.structs.replace(settings, effort=value)
    raise UsageError(f"no option {option_id[:100]!r} with the value {value[:200]!r}")
