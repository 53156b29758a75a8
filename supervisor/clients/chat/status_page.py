"""`/status` and `/mcp`: what is known of the run and of the selected agent, as lines. No I/O."""

from collections import Counter
from collections.abc import Iterable

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.mailbox.protocol.events import CallBegan, CallEnded, McpCall
from swarm.mailbox.protocol.records import AgentSpawned, Record, RunStarted, SettingsChanged
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Limits,
    McpAccess,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)

from ...base.number_format import render_count, render_span, render_usd
from ...base.safe_text import clean_line
from ...views.record_description import describe_sandbox

_LABEL = 10


def status_lines(view: RunView, agent: AgentView | None, *, now: float) -> list[str]:
    """The run, then the selected agent; one fact a line."""
    spent = f"{render_count(view.usage.total_tokens)} tokens"
    spent += "" if view.usd is None else f", {render_usd(view.usd)}"
    age = f"{render_span(max(now - view.started, 0.0))} old, " if view.started else ""
    name = f" ({view.title})" if view.title else ""
    lines = [
        _line("run", f"{short_id(view.run_id)}{name}, {age}{view.status}"),
        _line("folder", view.cwd),
        _line("model", f"{view.model} ({view.why})" if view.why else view.model),
        _line("spent", spent + _bound(view)),
        _line("agents", f"{view.slots_used} of {view.slots_max} slots in use"),
    ]
    if view.deadline_unix_s is not None:
        left = max(view.deadline_unix_s - now, 0.0)
        lines.append(_line("deadline", f"in {render_span(left)}"))
    if view.widened:
        lines.append(_line("widened", ", ".join(view.widened)))
    return lines if agent is None else [*lines, "", *_agent_lines(agent, view)]


def _agent_lines(agent: AgentView, view: RunView) -> list[str]:
    model = agent.model or view.model
    effort = f", effort {agent.effort}" if agent.effort else ""
    plan = ", plan mode: it only reads until /accept" if agent.planning else ""
    lines = [
        _line("agent", f"{agent.path} [{agent.role}], {agent.state}"),
        _line("model", model + effort),
        _line("sandbox", (agent.sandbox or "unknown") + plan),
    ]
    if agent.context_window:
        share = 100 * agent.context_tokens // agent.context_window
        window = render_count(agent.context_window)
        lines.append(_line("context", f"{share} % of {window} tokens"))
    return lines


def _bound(view: RunView) -> str:
    budget, bounds = view.budget, list[str]()
    if budget.tokens is not None:
        bounds.append(f"{render_count(budget.tokens)} tokens")
    if budget.usd is not None:
        bounds.append(render_usd(budget.usd))
    if budget.requests is not None:
        bounds.append(f"{budget.requests} requests")
    return f" of at most {', '.join(bounds)}" if bounds else ""


def _line(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}}{clean_line(text, limit=400)}"


def rights_lines(records: Iterable[Record], agent: str) -> list[str]:
    """What an agent may do: sandbox, folders, network, who is asked. The newest record counts."""
    limits, cwd = Limits(), ""
    for record in records:
        match record.body:
            case RunStarted(cwd=folder):
                cwd = cwd or folder
            case AgentSpawned(path=path) as body if path == agent:
                limits = body.limits
            case SettingsChanged(settings=settings) if record.agent == agent:
                limits, cwd = settings.limits, settings.cwd
            case _:
                pass
    plan = ", plan mode: it only reads until /accept" if limits.planning else ""
    return [
        _line("agent", agent),
        _line("sandbox", describe_sandbox(limits.sandbox) + plan),
        _line("writes", _writes(limits, cwd)),
        _line("network", _network(limits)),
        _line("asks", f"{limits.approval}; the answer comes from: {limits.reviewer}"),
    ]


def _writes(limits: Limits, cwd: str) -> str:
    if limits.isolation == "copy":
        return "in a copy of its own; a merge brings it into the project"
    match limits.sandbox:
        case DangerFullAccess():
            return "everywhere"
        case WorkspaceWrite() as policy:
            tmp = () if policy.exclude_slash_tmp else ("/tmp",)
            return ", ".join((cwd, *policy.writable_roots, *tmp))
        case ReadOnly():
            return "nothing"
        case ProfilePolicy(name=name):
            return f"what the profile {name} says"


def _network(limits: Limits) -> str:
    if (policy := limits.network) is not None:
        denied = f", never {', '.join(policy.deny)}" if policy.deny else ""
        asked = f", after a yes {', '.join(policy.ask)}" if policy.ask else ""
        return f"only {', '.join(policy.allow) or 'nothing'}{asked}{denied}"
    match limits.sandbox:
        case DangerFullAccess():
            return "all of it"
        case WorkspaceWrite(network_access=True):
            return "all of it"
        case ProfilePolicy(name=name):
            return f"what the profile {name} says"
        case _:
            return "none"


def mcp_lines(records: Iterable[Record], agent: str) -> list[str]:
    """The servers that an agent may use, as its limits say, and the calls of the whole run."""
    access: tuple[McpAccess, ...] = ()
    calls, failed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    open_calls: dict[str, tuple[str, str]] = {}
    for record in records:
        match record.body:
            case AgentSpawned(path=path, limits=limits) if path == agent:
                access = limits.mcp
            case SettingsChanged(settings=settings) if record.agent == agent:
                access = settings.limits.mcp
            case CallBegan(call_id=call_id, detail=McpCall(server=server, tool=tool)):
                open_calls[call_id] = (server, tool)
                calls[server, tool] += 1
            case CallEnded(call_id=call_id, status=status) if call_id in open_calls:
                failed[open_calls.pop(call_id)] += status != "completed"
            case _:
                pass
    if not access and not calls:
        return [f"  {clean_line(agent)} may use no MCP server"]
    lines = [_line(one.server, _tools(one)) for one in access]
    for (server, tool), count in sorted(calls.items()):
        bad = f", {failed[server, tool]} failed" if failed[server, tool] else ""
        times = "1 call" if count == 1 else f"{count} calls"
        lines.append(f"  {clean_line(f'{server}.{tool}')}: {times}{bad}")
    return lines


def _tools(access: McpAccess) -> str:
    return (
        "all its tools" if access.tools is None else ", ".join(access.tools) or "none of its tools"
    )
