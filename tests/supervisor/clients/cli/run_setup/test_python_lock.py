"""Locks that machines install: which are taken, and what is said of the others."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.clients.cli.run_setup.python_lock import read_lock

UV = """
[[package]]
name = "swarm-supervisor"
version = "1.0"
source = {{ {source} }}
wheels = [{{ url = "https://a/b.whl", hash = "sha256:ab" }}]
"""


def read(tmp_path, name, text, version="1.0"):
    (tmp_path / name).write_text(text)
    return read_lock("hosts.lab.python_env", str(tmp_path / name), version=version)


@pytest.mark.parametrize(
    "text",
    [
        "# made by uv\nSwarm_Supervisor[ray]==1.0 \\\n    --hash=sha256:aa\ntrio===0.3 ; x > '3'\n",
        "--index-url https://a\nswarm.supervisor == 1.0 --hash sha256:ab # via -r in\n",
        "swarm-supervisor @ file:///wheels/swarm_supervisor-1.0-py3-none-any.whl",
    ],
)
def test_a_lock_of_pip_is_sent_as_it_is(tmp_path, text):
    assert read(tmp_path, "lock.txt", text) == {"requirements.txt": text}


def test_a_lock_of_uv_goes_with_its_project(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]")
    text = UV.format(source='registry = "https://a"')
    assert read(tmp_path, "uv.lock", text) == {"uv.lock": text, "pyproject.toml": "[project]"}


def test_a_lock_by_the_standard_is_sent_as_it_is(tmp_path):
    text = 'lock-version = "1.0"\n[[packages]]\nname = "swarm-supervisor"\nversion = "1.0"\n'
    text += 'archive = { url = "https://a/b.whl", hashes = { sha256 = "ab" } }\n'
    assert read(tmp_path, "pylock.lab.toml", text) == {"pylock.toml": text}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("lock.txt", "swarm-supervisor==0.9", "has swarm-supervisor 0.9, and this is 1.0"),
        ("lock.txt", "swarm-supervisor==1.0\n-e .", "a file or folder of this machine: `-e .`"),
        ("lock.txt", "swarm-supervisor==1.0", "without a hash or an address"),
        ("lock.txt", "swarm-agents==1.0 --hash=sha256:aa", "somebody else's package"),
        ("lock.txt", "Swarm_Agents @ file:///a.whl", "Lock swarm-supervisor instead"),
        ("lock.txt", "trio==0.3", "does not name swarm-supervisor"),
        (
            "lock.txt",
            "swarm-supervisor==1.0\ntrio>=0.3",
            "is not a lock: `trio>=0.3` pins no version",
        ),
        ("lock.txt", "swarm-supervisor @ git+https://a", "does not name swarm-supervisor"),
        ("uv.lock", UV.format(source='editable = "."'), "is a folder of this machine"),
        ("uv.lock", UV.format(source='registry = "a"'), "pyproject.toml cannot be read"),
        ("uv.lock", "[", "cannot be read"),
        (
            "pylock.toml",
            "[[packages]]\nname = 'swarm-supervisor'\nversion = '1.0'",
            "without a hash or an address",
        ),
        ("pylock.toml", "[[packages]]\nname = 'trio'\nversion = '1'", "does not name"),
    ],
)
def test_a_lock_that_would_not_do_is_refused_with_the_reason(tmp_path, name, text, words):
    with pytest.raises(UsageError, match=r"hosts\.lab\.python_env: ") as refused:
        read(tmp_path, name, text)
    assert words in str(refused.value)


@pytest.mark.parametrize(("path", "words"), [("a.txt", "absolute"), ("/none/a", "cannot be read")])
def test_a_file_that_cannot_be_found_is_said(path, words):
    with pytest.raises(UsageError, match=words):
        read_lock("hosts.lab.python_env", path, version="1.0")
