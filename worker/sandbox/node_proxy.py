"""Makes Node's own `fetch` use the network proxy, by a module that every Node process loads first.

The module is required only where a command can read it, because a Node that cannot find it does not
start at all. What the user set in NODE_OPTIONS stays.
"""

import os
from pathlib import Path

import msgspec

from swarm.mailbox.path_rules import is_within

from .sandbox_plan import SandboxPlan

NODE_PRELOAD = os.path.realpath(Path(__file__).with_name("node_fetch.cjs"))


def with_node_preload(plan: SandboxPlan) -> SandboxPlan:
    """The plan in which the module can be read, where it may be shown at all."""
    if plan.proxied is None or not _may_show(plan):
        return plan
    return msgspec.structs.replace(
        plan, visible=tuple(dict.fromkeys((*plan.visible, NODE_PRELOAD)))
    )


def node_options(plan: SandboxPlan, said: str) -> dict[str, str]:
    """NODE_OPTIONS with the module appended to `said`; {} where the module cannot be read."""
    if plan.proxied is None or NODE_PRELOAD not in plan.visible:
        return {}
    word = '"' + NODE_PRELOAD.replace("\\", "\\\\").replace('"', '\\"') + '"'
    ours = f"--require {word}"
    if ours in said:  # the launcher of a locked role wraps again what its agent has wrapped
        return {}
    return {"NODE_OPTIONS": f"{said} {ours}".strip()}


def _may_show(plan: SandboxPlan) -> bool:
    closed = (*plan.hidden, *plan.hidden_files, *plan.denied, *plan.denied_files)
    return Path(NODE_PRELOAD).is_file() and not any(is_within(NODE_PRELOAD, one) for one in closed)
