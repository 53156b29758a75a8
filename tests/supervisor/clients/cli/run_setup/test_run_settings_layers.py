"""The table of layers: files in, values and origins or the error out, on the way that runs go."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.project_config import read_project_folders
from swarm.roles.config.layers.trust import save_trust_decision
from swarm.supervisor.clients.cli.base.effective_config import effective_rows
from swarm.supervisor.clients.cli.commands.run_command import run
from swarm.supervisor.clients.cli.run_setup.options import RunOptions
from swarm.supervisor.clients.cli.run_setup.run_settings import load_settings
from swarm.supervisor.clients.cli.run_setup.task_file import read_task

TABLE = Path(__file__).parent / "data" / "layers.toml"
CASES = tomllib.loads(TABLE.read_text())["cases"]
ROLE = "name = 'mine'\ndescription = 'd'\ndeveloper_instructions = 'i'\n"
KEYS = {
    "name", "system", "user", "fast", "root", "sub", "requirements", "role", "front", "args",
    "trusted", "want", "from", "error", "warn",
}  # fmt: skip


class Ground:
    """The folders of one case."""

    def __init__(self, base: Path, case: dict) -> None:
        self.home, self.root = base / "home", base / "repo"
        self.sub, self.task = self.root / "sub", base / "task.md"
        self.system = self.home / "system"
        self.case = case
        (self.root / ".git").mkdir(parents=True)
        self.sub.mkdir()
        for key, path in {
            "system": self.system / "config.toml",
            "requirements": self.system / "requirements.toml",
            "user": self.home / "config.toml",
            "fast": self.home / "fast.config.toml",
            "root": self.root / ".swarm" / "config.toml",
            "sub": self.sub / ".swarm" / "config.toml",
        }.items():
            if key in case:
                write(path, case[key])
        if "role" in case:
            write(self.home / "agents" / "mine.toml", ROLE + case["role"])
        write(self.task, f"---\n{case['front']}\n---\ndo it" if "front" in case else "do it")
        if case.get("trusted", True):
            for folder in (self.root, self.sub):  # each as if it were a root: markers may differ
                found = read_project_folders(folder, [], config_folder=self.home)
                save_trust_decision(self.home, found, trusted=True)

    def load(self):
        words = ["-C", str(self.sub), *self.case.get("args", ()), str(self.task)]
        said = run.make_context("run", words).params
        fields = {key: said[key] for key in RunOptions.__struct_fields__ if key in said}
        options = RunOptions(**fields)
        task = read_task(str(self.task), prompt=None, read_stdin=bytes)
        environment = {"SWARM_HOME": str(self.home), "HOME": str(self.home)}
        return load_settings(options, task, environment).loaded

    def spell(self, text: str) -> str:
        """The folders in the place of their names."""
        for name, path in {
            "HOME_UP": self.home.parent, "HOME": self.home, "SYSTEM": self.system,
            "ROOT": self.root, "SUB": self.sub, "TASK": self.task, "TILDE": Path.home(),
        }.items():  # fmt: skip
            text = text.replace(name, str(path))
        return text


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_table_is_large_and_each_case_is_one_of_its_own():
    assert len(CASES) >= 150
    assert len({case["name"] for case in CASES}) == len(CASES)
    assert not {key for case in CASES for key in case} - KEYS
    assert all({"want", "from", "error", "warn"} & set(case) for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_layers(case, tmp_path):
    ground = Ground(tmp_path, case)
    if "error" in case:
        with pytest.raises(UsageError) as caught:
            ground.load()
        assert ground.spell(case["error"]) in str(caught.value)
        return
    loaded = ground.load()
    rows = {row.key: row for row in effective_rows(loaded)}
    for key, wanted in case.get("want", {}).items():
        found: Any = rows[key].value if key in rows else None
        if isinstance(wanted, list):
            found = list(found)
            wanted = [ground.spell(one) for one in wanted]
        elif isinstance(wanted, str):
            wanted = ground.spell(wanted)
        assert found == wanted or (wanted is False and not found), key
    for key, place in case.get("from", {}).items():
        row = rows[key]
        found = f"{row.layer}:{row.line}" if row.line else row.layer
        assert found == ground.spell(place), key
    if "warn" in case:
        assert any(ground.spell(case["warn"]) in words for words in loaded.warnings), (
            loaded.warnings
        )
    elif case.get("trusted", True):
        assert loaded.warnings == ()
