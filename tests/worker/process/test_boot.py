"""What a child does first, in a process of its own: the order, the spec, the keys, the mask."""

import os
import subprocess
import sys

import msgspec
import pytest

from swarm.mailbox.protocol.spec import (
    AgentSpec,
    GatewayAccess,
    GatewaySettings,
    GatewaySpec,
    HubSpec,
    RoleBrief,
    encode_spec,
)
from swarm.mailbox.protocol.values.limits import Limits

LIMIT_S = 30
STAND_IN = """
import os, sys, types
from swarm.worker.process import boot

said = []
def module(name, **parts):
    made = types.ModuleType(name)
    vars(made).update(parts)
    sys.modules[name] = made

def mask():
    os.umask(found := os.umask(0))
    return f"umask {found:o}"

def fork_launcher(*, lifeline_fd, spec_fd=None):
    if spec_fd is not None:
        os.fstat(spec_fd)
    said.append(f"launcher {lifeline_fd} {mask()}")
    return "link"

def run_agent(spec, launcher, lifeline_fd):
    said.append(f"agent {spec.path} {launcher} {lifeline_fd} {mask()}")
    return 5

def run_gateway(spec, keys, lifeline_fd):
    said.append(f"gateway {spec.bind} {keys} {mask()}")
    return 6

def run_hub(spec, keys, launcher, lifeline_fd):
    said.append(f"hub {keys} {mask()}")
    return 7

module("swarm.worker.exec.launcher_client", fork_launcher=fork_launcher)
module("swarm.worker.agent.agent_process", run_agent=run_agent)
module("swarm.worker.gateway.gateway_process", run_gateway=run_gateway)
module("swarm.worker.parts.mcp.hub_process", run_hub=run_hub)
numbers = [int(text) if text else None for text in sys.argv[1:]]
code = boot.run_from_spec(*numbers, None)
print("; ".join(said))
sys.exit(code)
"""

AGENT = AgentSpec(
    run_id="r",
    agent_id="a",
    path="/root/scout",
    epoch=1,
    role=RoleBrief(),
    limits=Limits(),
    cwd="/",
    endpoint="",
    identity=b"i",
    secret=b"s",
    gateway=GatewayAccess(endpoint="", token=b""),
    tmp_dir="",
    environment={},
)
GATEWAY = GatewaySpec(
    run_id="r",
    epoch=1,
    endpoint="",
    identity=b"g",
    secret=b"s",
    bind="here",
    run_key=b"",
    blobs_dir="",
    models_dir="",
    settings=GatewaySettings(),
)

HUB = HubSpec(run_id="r", epoch=1, endpoint="", identity=b"h", secret=b"s", servers=())


def pipe_with(data: bytes) -> int:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return reader


@pytest.mark.parametrize(
    ("spec", "keys", "said", "code"),
    [
        # What makes files for the person has their umask, commands and servers by their launcher.
        (AGENT, None, "launcher None umask 27; agent /root/scout link None umask 27", 5),
        (HUB, None, "launcher None umask 27; hub {} umask 77", 7),
        (GATEWAY, {"API_KEY": "v"}, "gateway here {'API_KEY': 'v'} umask 77", 6),
        (GATEWAY, None, "gateway here {} umask 77", 6),
    ],
)
def test_a_spec_becomes_what_it_says(spec, keys, said, code):
    fds = [pipe_with(encode_spec(spec))]
    numbers = [str(fds[0]), ""]
    if keys is not None:
        fds.append(pipe_with(msgspec.msgpack.encode(keys)))
        numbers[1] = str(fds[1])
    done = subprocess.run(
        [sys.executable, "-P", "-c", STAND_IN, *numbers],
        pass_fds=fds,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        umask=0o027,
    )
    for fd in fds:
        os.close(fd)
    assert (done.stdout.strip(), done.returncode) == (said, code), done.stderr
