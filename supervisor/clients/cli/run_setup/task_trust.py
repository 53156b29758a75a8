"""Trust in task files that ask for more than the person's settings: refuse, ask or accept.

Trust covers exactly the file that was shown; after any change, also of its text, it is asked about
again. If nobody can be asked, the error names key, line and flag.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.roles.base.guidance import find_project_root
from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.project_config import ProjectFolder
from swarm.roles.config.layers.trust import forbidden_by_config, read_trust, save_trust_decision

from ....base.safe_text import clean_line, exact_line, exact_lines
from .reviewer_choice import AnswerLocation
from .run_settings import RunSettings
from .task_file import Task, read_task
from .task_widening import TaskComparison, Widening, can_widen, find_widenings
from .trusted_texts import shown_path

AskTaskTrust = Callable[[Task, Sequence[Widening]], bool | None]
_MOST_FILES = 50  # of a folder, that are shown


def check_task_trust(
    settings: RunSettings, *, answering: AnswerLocation = "nowhere", ask: AskTaskTrust | None = None
) -> tuple[str, ...]:
    """What the trusted task file widens, as texts; () if it only narrows.

    Raises UsageError: it widens, and nobody has trusted it.
    """
    task = settings.task
    found = find_widenings(
        TaskComparison(
            task=task,
            with_task=settings.loaded,
            without_task=load_config(
                [one for one in settings.loaded.layers if one.name != f"task file {task.name}"],
                requirements=settings.loaded.requirements,
            ),
            cwd=settings.cwd,
            on_terminal=answering == "terminal",
        )
    )
    if found and not _is_trusted(settings, found, ask):
        raise UsageError(_refusal(task, found))
    return tuple(f"{one.key} {clean_line(one.wanted, limit=80)}" for one in found)


def _is_trusted(settings: RunSettings, found: Sequence[Widening], ask: AskTaskTrust | None) -> bool:
    one, folder = task_as_project(settings.task), Path(settings.config_folder)
    if forbidden_by_config(one, settings.loaded.merged.values):
        return False
    store = read_trust(folder)
    match store.trust_state(one):
        case "trusted":
            return True
        case "unknown" if ask is not None and not store.problem:
            answer = ask(settings.task, found)
            if answer is not None:
                save_trust_decision(folder, [one], trusted=answer)
            return bool(answer)
        case _:
            return False


def task_as_project(task: Task) -> ProjectFolder:
    """The file as the trust store knows it: its path and its whole text."""
    path = os.path.realpath(task.name)
    data = task.text.encode()
    try:
        root = str(find_project_root(Path(path).parent, (".git",)))
    except OSError:
        root = str(Path(path).parent)
    digest = hashlib.sha256(b"swarm task file 1\0" + data).hexdigest()
    return ProjectFolder(folder=path, root=root, files={path: data}, digest=digest)


def find_widening_tasks(folder: Path) -> tuple[Task, ...]:
    """The task files in a folder that set keys which can widen a run; reads at most 50 files."""
    found: list[Task] = []
    for path in sorted(folder.glob("*.md"))[:_MOST_FILES]:
        try:
            task = read_task(str(path), prompt=None, read_stdin=bytes)
        except UsageError:
            continue
        if can_widen(task.front):
            found.append(task)
    return tuple(found)


def describe_task(task: Task) -> list[str]:
    """Lines that show a person what they would trust: the whole text, then what it sets."""
    given = msgspec.to_builtins(task.front)
    lines = [shown_path(task.name)]
    for key, value in given.items():
        if value not in (None, (), []):
            shown = msgspec.json.encode(value).decode()
            lines.append(f"    {exact_line(f'{key}: {shown}')}")
    return [*(f"    | {line}" for line in exact_lines(task.body)), *lines]


def _refusal(task: Task, found: Sequence[Widening]) -> str:
    lines = [
        f"{task.name}, line {_line_of(one.key, task)}, key {one.key}: {clean_line(one.wanted)} is "
        f"more than your own flags and configuration give ({clean_line(one.own)}); "
        f"give {clean_line(one.flag)} yourself"
        for one in found
    ]
    more = "" if len(lines) == 1 else ", each"
    lines.append(
        "a task file narrows freely and widens only what you trust: take the key out, say it by "
        f"flag{more}, or trust this file as it is now with `swarm trust {task.name}`"
    )
    return "\n  ".join(lines)


def _line_of(key: str, task: Task) -> int:
    while key not in task.lines and "." in key:
        key = key.rpartition(".")[0]
    return task.lines.get(key, 1)
