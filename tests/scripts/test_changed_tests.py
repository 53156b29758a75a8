"""`scripts/test --changed` runs what a change may break, and no test beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "changed_tests.py"
FILES = {
    "mailbox/__init__.py": "",
    "mailbox/ids.py": "",
    "roles/limits.py": "from swarm.mailbox.ids import x\n",
    "worker/exec/run.py": "def f():\n    from ..policy import decide\n",
    "worker/policy/decide.py": "TABLE = 'words.toml'\n",
    "worker/policy/words.toml": "",
    "worker/policy/other.py": "",
    "supervisor/far.py": "",
    "tests/conftest.py": "",
    "tests/mailbox/test_ids.py": "from swarm.mailbox.ids import x\n",
    "tests/mailbox/test_beside.py": "",
    "tests/roles/test_limits.py": "from swarm.roles.limits import x\n",
    "tests/worker/exec/test_run.py": "from swarm.worker.exec.run import x\n",
    "tests/worker/policy/test_decide.py": "from swarm.worker.policy.decide import x\n",
    "tests/supervisor/test_far.py": "from swarm.supervisor.far import x\n",
    "tests/supervisor/test_helped.py": "from support.stage import x\n",
    "tests/support/stage.py": "",
    "tests/live/test_run_whole.py": "",
    "tests/live/test_ids_live.py": "from swarm.mailbox.ids import x\n",
    "tests/live/test_limits_live.py": "from swarm.roles.limits import x\n",
    "docs/guide.md": "words\n",
}
WHOLE = "tests/live/test_run_whole.py"
NOT_LIVE = sorted(name for name in FILES if "/test_" in name and "/live/" not in name)


@pytest.fixture
def checkout(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    return tmp_path


def chosen(checkout):
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=checkout, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            "mailbox/ids.py",
            ["tests/live/test_ids_live.py", WHOLE, "tests/mailbox/test_beside.py",
             "tests/mailbox/test_ids.py", "tests/roles/test_limits.py"],
        ),
        (
            "supervisor/far.py",
            [WHOLE, "tests/supervisor/test_far.py", "tests/supervisor/test_helped.py"],
        ),
        (
            "worker/policy/decide.py",
            [WHOLE, "tests/worker/exec/test_run.py", "tests/worker/policy/test_decide.py"],
        ),
        (
            "worker/policy/words.toml",
            [WHOLE, "tests/worker/exec/test_run.py", "tests/worker/policy/test_decide.py"],
        ),
        ("tests/support/stage.py", ["tests/supervisor/test_helped.py"]),
        ("tests/mailbox/test_beside.py", ["tests/mailbox/test_beside.py"]),
        ("docs/guide.md", ["tests/test_docs.py"]),
        ("tests/conftest.py", NOT_LIVE),
        ("README", []),
    ],
)  # fmt: skip
def test_a_change_chooses_the_tests_of_its_folder_and_of_who_imports_it(
    checkout, changed, expected
):
    path = checkout / changed
    path.write_text((path.read_text() if path.exists() else "") + "# changed\n")
    assert chosen(checkout) == expected


def test_the_tests_of_a_removed_module_and_a_file_not_tracked_yet_are_chosen(checkout):
    (checkout / "supervisor/far.py").unlink()
    (checkout / "tests/roles/test_new.py").write_text("")
    assert chosen(checkout) == [
        WHOLE, "tests/roles/test_new.py", "tests/supervisor/test_far.py",
        "tests/supervisor/test_helped.py",
    ]  # fmt: skip


def test_live_tests_are_not_chosen_by_a_module_that_very_many_of_them_import(checkout):
    for number in range(12):
        path = checkout / f"tests/live/test_reads{number}.py"
        path.write_text("from swarm.mailbox.ids import x\n")
    path = checkout / "mailbox/ids.py"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "add", "-A"], cwd=checkout, check=True)
    subprocess.run([*git, "commit", "-qm", "second"], cwd=checkout, check=True)
    path.write_text("# changed\n")
    assert chosen(checkout) == [
        WHOLE, "tests/mailbox/test_beside.py", "tests/mailbox/test_ids.py",
        "tests/roles/test_limits.py",
    ]  # fmt: skip


def test_a_base_that_git_does_not_know_is_an_error_and_not_no_test(checkout):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "nowhere"], cwd=checkout, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "git cannot compare with 'nowhere': fatal: bad revision 'nowhere'" in done.stderr
