"""Changes an agent's settings: (plan, requested changes) → new plan, or a refusal.

No I/O, except a check of a folder. Only `widen` and the end of plan mode add rights. Any other
change that would allow the agent more is refused with a message that says what it has.
"""

import os
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import is_within, may_read
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.settings import EFFORTS, AgentSettings, SandboxMode
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    Limits,
    ProfilePolicy,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from swarm.roles.rights.narrow import narrow_approval, narrow_sandbox
from swarm.roles.rights.role import Role

from ..request.run_request import RequiredChoices
from .agent_record import AgentPlan
from .rights_widening import (
    RightsBound,
    begin_planning,
    end_planning,
    sandbox_mode,
    suspended_limits,
    widen_approval,
    widen_sandbox,
    within,
)
from .run_providers import RunProviders

# Read-only below a root.
_READ_ONLY_NAMES = frozenset({".git", ".swarm", ".agents", ".codex", ".aws"})


def changed_plan(
    plan: AgentPlan,
    request: ChangeSettings,
    bound: RightsBound | None = None,
    *,
    providers: RunProviders | None = None,
) -> AgentPlan:
    """The plan with all changes of `request`. Raises UsageError; then nothing is changed.

    Args:
        plan: The agent's present one.
        request: What a person wants.
        bound: The most that it may be given; None: nothing can be widened.
        providers: Those that it may use; None: the run's own alone.
    """
    plan = _with_model(plan, request, providers or RunProviders())
    if request.effort is not None and request.effort not in ("", *EFFORTS):
        raise UsageError(f"effort {request.effort!r} is not known; there are {', '.join(EFFORTS)}")
    if request.plan is False:
        plan = end_planning(plan, bound)
    plan = _with_rights(plan, request, bound)
    if request.plan:
        plan = begin_planning(plan)
    asked = plan.model_settings
    asked = msgspec.structs.replace(
        asked,
        effort=asked.effort if request.effort is None else request.effort or None,
        summary=request.summary or asked.summary,
        verbosity=request.verbosity or asked.verbosity,
    )
    return msgspec.structs.replace(plan, model_settings=asked)


def _with_rights(plan: AgentPlan, request: ChangeSettings, bound: RightsBound | None) -> AgentPlan:
    """The plan with another sandbox, approval and folder."""
    if plan.limits.planning and (request.sandbox or request.approval):
        raise UsageError(f"{plan.path} is in plan mode; accept its plan first (`swarm accept`)")
    widest = bound if request.widen else None
    if request.sandbox is not None:
        if widest is not None and request.sandbox != "read-only":
            plan = widen_sandbox(plan, request.sandbox, widest)
        else:
            sandbox = _narrowed(plan, request.sandbox)
            limits = msgspec.structs.replace(plan.limits, sandbox=sandbox)
            plan = msgspec.structs.replace(plan, limits=limits)
    if request.approval is not None:
        if widest is not None:
            plan = widen_approval(plan, request.approval, widest)
        else:
            limits = _with_approval(plan.limits, request.approval)
            plan = msgspec.structs.replace(plan, limits=limits)
    if request.cwd is None:
        return plan
    cwd = _folder(plan, plan.limits.sandbox, request.cwd)
    return msgspec.structs.replace(plan, cwd=cwd)


def settings_of(plan: AgentPlan) -> AgentSettings:
    """All settings of a plan that can change."""
    asked = plan.model_settings
    return AgentSettings(
        model=asked.model,
        effort=asked.effort,
        summary=asked.summary,
        verbosity=asked.verbosity,
        limits=plan.limits,
        cwd=plan.cwd,
        allowed=plan.allowed,
        widened=plan.widened,
        provider=asked.provider,
        fallbacks_taken=plan.fallbacks_taken,
    )


def with_settings(
    plan: AgentPlan, settings: AgentSettings | None, parent: Limits | None = None
) -> AgentPlan:
    """A newly made plan (of a resumed run) with the changes that a person had made before.

    The run's limits are those of the new plan. Sandbox and approval are the narrower of both,
    unless a person had widened them; a child gets at most what `parent` has.
    """
    if settings is None:
        return plan
    before = settings.limits if settings.allowed is None else settings.allowed
    if settings.widened:
        limits = msgspec.structs.replace(
            plan.limits, sandbox=before.sandbox, approval=before.approval, granular=before.granular
        )
        limits = limits if parent is None else within(limits, parent)
    else:
        limits = within(before, plan.limits)
        limits = msgspec.structs.replace(
            plan.limits, sandbox=limits.sandbox, approval=limits.approval
        )
    limits = msgspec.structs.replace(limits, planning=False)
    allowed = limits if settings.allowed is not None else None
    return msgspec.structs.replace(
        plan,
        allowed=allowed,
        widened=settings.widened,
        model_settings=msgspec.structs.replace(
            plan.model_settings,
            model=settings.model,
            effort=settings.effort,
            summary=settings.summary,
            verbosity=settings.verbosity,
            provider=settings.provider,
        ),
        limits=suspended_limits(limits) if settings.limits.planning else limits,
        cwd=settings.cwd or plan.cwd,
        fallbacks_taken=settings.fallbacks_taken,
    )


def check_requirements(before: AgentPlan, after: AgentPlan, choices: RequiredChoices) -> None:
    """Raises UsageError for a change that the administrator's requirements do not allow.

    Plan mode, in which nothing can be changed, is always allowed.
    """
    if after.limits.planning:
        choices = RequiredChoices(model=choices.model)
    old_mode, new_mode = sandbox_mode(before.limits.sandbox), sandbox_mode(after.limits.sandbox)
    old_model, new_model = before.model_settings.model, after.model_settings.model
    models = None if choices.model is None else (choices.model,)
    for name, value, old, allowed in (
        ("model", new_model, old_model, models),
        ("approval", after.limits.approval, before.limits.approval, choices.approvals),
        ("sandbox", new_mode, old_mode, choices.sandbox_modes),
    ):
        if value != old and allowed is not None and value not in allowed:
            raise UsageError(
                f"{name} {value or 'default'} is not allowed: the requirements of this machine "
                f"allow only {', '.join(allowed)} (`swarm config layers` shows the file)"
            )


def describe_change(before: AgentPlan, after: AgentPlan) -> str:
    """The changes in words, for a person; "" if there are none."""
    old_model, new_model = before.model_settings, after.model_settings
    changes = [
        f"{name} {value or 'default'}"
        for name, value, old in (
            ("provider", new_model.provider, old_model.provider),
            ("model", new_model.model, old_model.model),
            ("effort", new_model.effort, old_model.effort),
            ("summary", new_model.summary, old_model.summary),
            ("verbosity", new_model.verbosity, old_model.verbosity),
            ("sandbox", sandbox_mode(after.limits.sandbox), sandbox_mode(before.limits.sandbox)),
            ("approval", after.limits.approval, before.limits.approval),
            ("folder", after.cwd, before.cwd),
        )
        if value != old
    ]
    if after.limits.planning != before.limits.planning:
        changes.insert(0, "plan mode" if after.limits.planning else "no plan mode")
    return ", ".join(changes)


def _with_model(plan: AgentPlan, request: ChangeSettings, providers: RunProviders) -> AgentPlan:
    """The plan with the wanted provider and model, and its whole fallback list before it again."""
    if request.model is None and request.provider is None:
        return plan
    wanted = providers.read(request.model or "")
    before = plan.model_reference
    provider = before.provider if request.provider is None else providers.check(request.provider)
    if wanted.provider is not None:
        if request.provider not in {None, wanted.provider}:
            raise UsageError(f"{request.model!r} is not a model of provider {request.provider}")
        provider = providers.check(wanted.provider)
    asked = msgspec.structs.replace(plan.model_settings, model=wanted.model, provider=provider)
    plan = msgspec.structs.replace(plan, model_settings=asked)
    if plan.model_reference == before:
        return plan
    return msgspec.structs.replace(plan, fallbacks_taken=0)


def _narrowed(plan: AgentPlan, wanted: SandboxMode) -> SandboxPolicy:
    has = plan.limits.sandbox
    if wanted == sandbox_mode(has):
        return has
    if plan.role.locked:
        raise UsageError(f"{plan.path} is locked to its sandbox for good; start another agent")
    narrowed = narrow_sandbox(has, Role(name="", sandbox_mode=wanted))
    reads = isinstance(narrowed, ProfilePolicy) and wanted == "read-only"
    if sandbox_mode(narrowed) != wanted and not reads:
        raise UsageError(
            f"{plan.path} has sandbox {sandbox_mode(has)}; without --widen what an agent may do "
            "can only become less"
        )
    return narrowed


def _with_approval(limits: Limits, wanted: AskForApproval) -> Limits:
    if narrow_approval(limits.approval, wanted) != wanted:
        raise UsageError(
            f"it has approval {limits.approval}; what an agent may do can only become less, and "
            f"{wanted} would let more run unasked"
        )
    granular = limits.granular if wanted == "on-request" else None
    return msgspec.structs.replace(limits, approval=wanted, granular=granular)


def _folder(plan: AgentPlan, sandbox: SandboxPolicy, wanted: str) -> str:
    """Its new working directory becomes writable, so it must be inside a writable folder."""
    path = os.path.realpath(os.path.join(plan.cwd, wanted))  # noqa: PTH118 — `..` is resolved here
    if not Path(path).is_dir():
        raise UsageError(f"there is no folder {path}")
    if plan.role.locked:
        raise UsageError(f"{plan.path} is locked to its folder for good; start another agent")
    if isinstance(sandbox, ReadOnly):
        return path
    if isinstance(sandbox, ProfilePolicy):
        if not may_read(sandbox, path):  # a profile names its folders: this adds no right
            raise UsageError(f"{path} is not within what {plan.path} may read")
        return path
    if isinstance(sandbox, WorkspaceWrite):
        roots = [os.path.realpath(root) for root in (plan.cwd, *sandbox.writable_roots)]
        inside = [root for root in roots if is_within(path, root)]
        if not any(_is_writable_below(path, root) for root in inside):
            raise UsageError(
                f"{path} is not within what {plan.path} may write ({', '.join(roots)}), or below "
                "a folder that is protected there; what an agent may do can only become less"
            )
    return path


def _is_writable_below(path: str, root: str) -> bool:
    steps = Path(path).relative_to(root).parts
    return not _READ_ONLY_NAMES.intersection(steps)
