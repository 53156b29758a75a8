"""A run without other machines loads nothing of Ray, and needs none of it."""

import trio

from support.copied_agents import LIMIT_S, call, root, turns
from swarm.mailbox.base.own_distribution import line_for_extra

HOLE = """import os
open(os.environ["RAY_LOADED"], "a").close()
raise ImportError("no Ray here")
"""


async def test_no_process_of_a_run_loads_ray_unless_hosts_are_named(rig):
    place = rig.folder / "shadow" / "ray"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(HOLE)
    rig.environment["PYTHONPATH"] = str(place.parent)
    rig.environment["RAY_LOADED"] = str(rig.folder / "loaded")
    (rig.home / "config.toml").write_text('[hosts.lab]\nray = "auto"\n')
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(
                {"agent": "/root", "calls": [call("exec_command", cmd="true")]},
                *root("one"),
                *turns("/root/one", "true"),
            )
        )
        ended = await started.wait_end()
    assert ended.code == 0, ended.err
    assert not (rig.folder / "loaded").exists()


async def test_a_host_without_ray_is_refused_at_once_with_the_extra_to_install(rig):
    shadow = rig.folder / "shadow"
    shadow.mkdir()
    (shadow / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hides:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ray':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hides())\n"
    )
    rig.environment["PYTHONPATH"] = str(shadow)
    (rig.home / "config.toml").write_text('[hosts.lab]\nray = "auto"\n')
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script({"agent": "/root", "text": "done"}), "--hosts", "lab",
            sandbox="workspace-write",
        )  # fmt: skip
        ended = await started.wait_end()
    assert ended.code == 2
    assert line_for_extra("ray") in ended.err
    assert not rig.has_run
