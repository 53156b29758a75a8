"""An environment that was made from a lock is used only if swarm in it is this program."""

import pytest

from swarm.worker.parts.hosts.node_holder import check_environment

OURS = "[console_scripts]\nswarm = swarm_command:main\n"


def environment(folder, files):
    for name, text in files.items():
        path = folder / "lib/python3.11/site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_an_environment_with_this_program_is_used(tmp_path):
    files = {"swarm_supervisor-0.1.0.dist-info/entry_points.txt": OURS, "swarm/worker/a.py": ""}
    check_environment(environment(tmp_path, files))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"swarm_supervisor-0.1.0.dist-info/entry_points.txt": OURS, "swarm/__init__.py": ""},
         "another package called `swarm`"),
        ({"swarm_supervisor-0.1.0.dist-info/entry_points.txt": OURS, "swarm.py": ""},
         "another package called `swarm`"),
        ({"swarm_supervisor-0.1.0.dist-info/entry_points.txt": "[console_scripts]\nswarm = x:main"},
         "no swarm, or a stranger's"),
        ({"swarm_agents-0.1.0.dist-info/entry_points.txt": OURS}, "no swarm, or a stranger's"),
        ({}, "no swarm, or a stranger's"),
    ],
)  # fmt: skip
def test_a_strangers_package_is_refused_with_the_reason(tmp_path, files, words):
    with pytest.raises(RuntimeError, match=words):
        check_environment(environment(tmp_path, files))
