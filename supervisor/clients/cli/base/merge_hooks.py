"""Runs the MergeConflict hooks of this folder after a merge or a check that found conflicts.

A merge is a person's command, so no agent's process runs them: they run in the read-only sandbox,
as with `swarm hooks test`, and decide nothing. What one shows people is printed.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from swarm.mailbox.protocol.hooks import CommandHook, Hook
from swarm.roles.parts.hooks.hook_combination import matching_hooks
from swarm.roles.parts.hooks.hook_input import HookSession, encode_input
from swarm.roles.parts.hooks.hook_output import read_opinion

from ....base.safe_text import clean_line
from ....parts.copies.merge_plan import Conflict
from ....runs.paths import find_user_paths
from ..run_setup.hook_settings import find_run_hooks
from ..run_setup.run_settings import load_config_here
from .hook_trial import try_hook

MAX_CONFLICTS = 200  # in a hook's input
Fields = dict[str, object]


def run_conflict_hooks(run_id: str, conflicts: Sequence[Conflict]) -> Iterator[str]:
    """Run each hook; yields lines for people: messages and failures. Raises UsageError."""
    loaded = load_config_here()
    found = find_run_hooks(loaded, find_user_paths(dict(os.environ)).config)
    hooks = matching_hooks(found.hooks, "MergeConflict", ())
    if not hooks:
        return
    cwd = Path(os.path.realpath(Path.cwd()))
    payload = _payload(run_id, conflicts, cwd)
    for hook in hooks:
        yield from _run_one(hook, cwd, payload)


def _run_one(hook: Hook, cwd: Path, payload: bytes) -> Iterator[str]:
    name = f"hook {hook.hook_id} {clean_line(hook.line, limit=120)}"
    if not isinstance(hook.action, CommandHook):
        yield f"{name}: starts no command, so it does not run for a merge"
        return
    opinion = read_opinion(hook.event, try_hook(hook, cwd, payload), hook.form)
    if opinion.message:
        yield f"{name}: {clean_line(opinion.message, limit=400)}"
    elif opinion.status == "failed":
        yield f"{name}: failed"


def _payload(run_id: str, conflicts: Sequence[Conflict], cwd: Path) -> bytes:
    session = HookSession(
        session_id=run_id, cwd=str(cwd), model="", permission_mode="default", agent_id="",
        agent_path="", agent_type="", agent_depth=0,
    )  # fmt: skip
    return encode_input("MergeConflict", session, "", conflict_fields(conflicts))


def conflict_fields(conflicts: Sequence[Conflict]) -> Fields:
    """The event's own fields: which paths conflict, why, and with whose change."""
    listed = [
        {"path": one.path, "agent": one.agent, "with": list(one.others), "reason": one.why,
         "hunks": one.hunks}
        for one in conflicts[:MAX_CONFLICTS]
    ]  # fmt: skip
    return {"conflicts": listed, "conflict_count": len(conflicts)}
