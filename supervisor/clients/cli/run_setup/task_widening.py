"""Finds what a task file asks for beyond the person's own flags and configuration.

Front matter may narrow freely but widens nothing by itself, since somebody else may have written
the task file. Each key is compared by its effect: the configuration with the file against the
configuration without it. What cannot be compared counts as wider.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.host_patterns import intersect_patterns
from swarm.mailbox.base.quantities import parse_duration
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import NetworkPolicy
from swarm.roles.config.layers.config_loader import LoadedConfig
from swarm.roles.config.schema import AgentsTable, Config
from swarm.roles.config.wait_for_limit import check_wait_for_limit
from swarm.roles.rights.narrow import narrow_approval
from swarm.roles.rights.permission_profiles import chosen_profile
from swarm.roles.rights.proxy_policy import network_policy

from .task_file import FrontMatter, Task

_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
_REVIEWERS = {"user": "person", "nobody": "nobody", None: "as usual"}


class Widening(Value):
    """One key that asks for more."""

    key: str  # of the front matter, dotted
    wanted: str
    own: str  # what flags and configuration give
    flag: str  # the flag with which the person would allow the same


class TaskComparison(NamedTuple):
    """The configuration with the task file, and without it."""

    task: Task
    with_task: LoadedConfig
    without_task: LoadedConfig
    cwd: str
    on_terminal: bool  # a person at this terminal answers unless configured otherwise


def find_widenings(both: TaskComparison) -> tuple[Widening, ...]:
    """Every key that widens, in the order of the documentation. Raises UsageError."""
    if both.task.folder is None:
        return ()  # given by hand: the person's own text
    readers = (
        _provider,
        _sandbox,
        _approval,
        _reviewer,
        _agents,
        _commits,
        _merges,
        _network,
        _budget_and_deadline,
    )
    found = [one for read in readers for one in read(both)]
    return (*found, *_files(both), *_fan_out_command(both), *_goal_check(both))


def _provider(both: TaskComparison) -> Iterator[Widening]:
    wanted, own = both.with_task.config.model_provider, both.without_task.config.model_provider
    if wanted is None or wanted == own or wanted == "local" or wanted.startswith("scripted:"):
        return  # neither of the two sends text to anybody
    flag = f"--provider {wanted}"
    yield Widening(key="provider", wanted=wanted, own=own or "none named", flag=flag)


def _sandbox(both: TaskComparison) -> Iterator[Widening]:
    wanted, own = both.with_task.config.sandbox_mode, both.without_task.config.sandbox_mode
    profile = chosen_profile(both.without_task.layers)
    replaces = profile is not None and chosen_profile(both.with_task.layers) is None
    if replaces or _SANDBOXES.index(wanted) > _SANDBOXES.index(own):
        given = f"the permission profile {profile}" if replaces else own
        yield Widening(key="sandbox", wanted=wanted, own=given, flag=f"-s {wanted}")


def _approval(both: TaskComparison) -> Iterator[Widening]:
    mine, own = both.with_task.config, both.without_task.config
    if mine.approval_policy == own.approval_policy:
        return
    looser = narrow_approval(own.approval, mine.approval) != mine.approval
    more_questions = own.granular is not None and mine.approval == "on-request"
    # Nothing bounds it there, and it would not even ask before work is discarded.
    unbound = mine.approval == "never" and mine.sandbox_mode == "danger-full-access"
    if looser or more_questions or unbound:
        given = "granular" if own.granular is not None else own.approval
        yield Widening(key="approval", wanted=mine.approval, own=given, flag=f"-a {mine.approval}")


def _reviewer(both: TaskComparison) -> Iterator[Widening]:
    wanted, own = (
        both.with_task.config.approvals_reviewer,
        both.without_task.config.approvals_reviewer,
    )
    if wanted == own or wanted in ("user", "nobody", None):
        return  # a person answers, or nobody
    if own is not None or both.on_terminal:
        given = _REVIEWERS.get(own, "guardian") if own else "person"
        yield Widening(key="reviewer", wanted="guardian", own=given, flag="--reviewer guardian")


def _agents(both: TaskComparison) -> Iterator[Widening]:
    """Compare only limits that the person has set; a task may choose the others itself."""
    mine, own = (_agent_limits(loaded.config) for loaded in (both.with_task, both.without_task))
    for key, wanted in mine.items():
        given = own.get(key)
        if given is not None and wanted > given:
            flag = f"--{key.replace('_', '-')} {wanted}"
            yield Widening(key=key, wanted=str(wanted), own=str(given), flag=flag)


def _agent_limits(config: Config) -> dict[str, int]:
    table = msgspec.convert(config.agents, AgentsTable)
    given = {
        "max_agents": None if table.children is None else table.children + 1,
        "max_depth": table.max_depth,
        "max_spawns": table.max_total,
    }
    return {key: value for key, value in given.items() if value is not None}


def _commits(both: TaskComparison) -> Iterator[Widening]:
    if both.with_task.config.allow_commit and not both.without_task.config.allow_commit:
        yield Widening(key="allow_commit", wanted="true", own="false", flag="--allow-commit")


def _merges(both: TaskComparison) -> Iterator[Widening]:
    wanted, own = both.with_task.config.merge, both.without_task.config.merge
    if wanted == "auto" and own != "auto":
        yield Widening(key="merge", wanted="auto", own=own, flag="--merge auto")


def _network(both: TaskComparison) -> Iterator[Widening]:
    front = both.task.front.network
    mine, own = network_policy(both.with_task.config), network_policy(both.without_task.config)
    if front is None or mine is None or mine == own:
        return
    allowed = ", ".join(front.allow) or "a way to ask for hosts"
    flag = " ".join(f"--allow-domain '{one}'" for one in front.allow) or "-c network.enabled=true"
    if not _reaches_all(both.without_task.config) and (own is None or _reaches_more(mine, own)):
        given = "none" if own is None else "fewer hosts"
        yield Widening(key="network", wanted=allowed, own=given, flag=flag)


def _reaches_all(config: Config) -> bool:
    """True if commands have network without a host list: any list is then narrower."""
    direct = config.sandbox_mode == "workspace-write" and (
        config.sandbox_workspace_write.network_access
    )
    return not config.network.enabled and (direct or config.sandbox_mode == "danger-full-access")


def _reaches_more(mine: NetworkPolicy, own: NetworkPolicy) -> bool:
    common = intersect_patterns(mine.allow, own.allow)
    return not set(mine.allow) <= set(common) or not set(own.deny) <= set(mine.deny)


def _budget_and_deadline(both: TaskComparison) -> Iterator[Widening]:
    mine, own = both.with_task.config, both.without_task.config
    for name in ("tokens", "usd", "requests"):
        wanted, given = getattr(mine.budget, name), getattr(own.budget, name)
        if given is not None and (wanted is None or wanted > given):
            flag = f"--budget-{name} {wanted}"
            yield Widening(key=f"budget.{name}", wanted=str(wanted), own=str(given), flag=flag)
    limits = check_wait_for_limit(mine.wait_for_limit, is_persons=True)
    if limits > check_wait_for_limit(own.wait_for_limit, is_persons=True):
        wanted, given = str(mine.wait_for_limit), str(own.wait_for_limit or "6h")
        flag = f"--wait-for-limit {wanted}"
        yield Widening(key="wait_for_limit", wanted=wanted, own=given, flag=flag)
    if own.deadline is None or mine.deadline is None:
        return
    if parse_duration(mine.deadline) > parse_duration(own.deadline):
        wanted, given = str(mine.deadline), str(own.deadline)
        yield Widening(key="deadline", wanted=wanted, own=given, flag=f"--deadline {wanted}")


def _files(both: TaskComparison) -> Iterator[Widening]:
    """Files whose text goes to a model; those beside the task file have the same author."""
    front, home = both.task.front, both.task.folder or both.cwd
    fan = front.fan_out
    schemas = {"output_schema": front.output_schema}
    if fan is not None:
        schemas["fan_out.output_schema"] = fan.output_schema
        if fan.each.csv is not None and _escapes_folder(both.cwd, fan.each.csv):
            yield Widening(
                key="fan_out.each.csv", wanted=fan.each.csv, own="files below the working folder",
                flag="-C with a folder that holds it",
            )  # fmt: skip
    for key, name in schemas.items():
        if isinstance(name, str) and _escapes_folder(home, name):
            own, flag = "files below the task file's folder", f"--output-schema {name}"
            yield Widening(key=key, wanted=name, own=own, flag=flag)


def _escapes_folder(folder: str, name: str) -> bool:
    """True if the path is outside the folder, also through a link."""
    return not Path(os.path.realpath(Path(folder, name))).is_relative_to(os.path.realpath(folder))


def _fan_out_command(both: TaskComparison) -> Iterator[Widening]:
    """A command that runs before anybody is asked; widens only if every command needs approval."""
    fan = both.task.front.fan_out
    if (
        fan is not None
        and fan.each.lines is not None
        and both.without_task.config.approval == "untrusted"
    ):
        yield Widening(
            key="fan_out.each.lines",
            wanted=fan.each.lines,
            own="no command unasked",
            flag="-a on-request",
        )


def _goal_check(both: TaskComparison) -> Iterator[Widening]:
    """Commands of a goal's check run in the sandbox, and nobody is asked; likewise."""
    goal = both.task.front.goal
    if goal is not None and goal.verify and both.without_task.config.approval == "untrusted":
        yield Widening(
            key="goal.verify",
            wanted=goal.goal(task="").verify[0],
            own="no command unasked",
            flag="-a on-request",
        )


def can_widen(front: FrontMatter) -> bool:
    """True if the file sets any key that can widen; for listing the task files of a folder."""
    given = (
        front.provider, front.sandbox, front.approval, front.reviewer, front.allow_commit,
        front.merge, front.network, front.max_agents, front.max_depth, front.max_spawns,
        front.budget, front.deadline, front.wait_for_limit,
    )  # fmt: skip
    files = (front.output_schema, front.fan_out, front.goal)
    return any(one is not None for one in (*given, *files))
