"""Projects with hooks, and what their runs left."""

import json

import trio

from swarm.mailbox.protocol.events import HookRan
from swarm.mailbox.protocol.items import FunctionCallOutput, Message, text_of
from swarm.mailbox.protocol.records import ItemRecorded

LIMIT_S = 60


def call(cmd, **more):
    return {"name": "exec_command", "arguments": {"cmd": cmd, **more}}


def patch(name, text="hello"):
    body = f"*** Begin Patch\n*** Add File: {name}\n+{text}\n*** End Patch"
    return {"name": "apply_patch", "custom": True, "arguments": body}


def write_groups(rig, name, events):
    """`events`: for each event (matcher, handler) pairs; `name` is relative to the project."""
    (rig.work / ".git").mkdir(exist_ok=True)
    path = rig.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {
        event: [{"matcher": matcher, "hooks": [{"type": "command", **handler}]}
                for matcher, handler in pairs]
        for event, pairs in events.items()
    }  # fmt: skip
    path.write_text(json.dumps({"hooks": table}))


async def trust(rig):
    trusted = await (await rig.start("trust", "--yes")).wait_end()
    assert trusted.code == 0, trusted.err
    return trusted


async def run_trusted(rig, *turns, words=()):
    with trio.fail_after(LIMIT_S):
        await trust(rig)
        run = await rig.run(rig.script(*turns), "-p", "go", *words, sandbox="workspace-write")
        return await run.wait_end()


def outputs(rig):
    items = [body.item for body in rig.bodies(ItemRecorded)]
    return [text_of(item.output) for item in items if isinstance(item, FunctionCallOutput)]


def texts(rig):
    items = [body.item for body in rig.bodies(ItemRecorded)]
    return [text_of(item.content) for item in items if isinstance(item, Message)]


def ran(rig, event=None):
    return [body for body in rig.bodies(HookRan) if event in (None, body.event)]
