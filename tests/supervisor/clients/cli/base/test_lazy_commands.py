"""The doors themselves: light, documented, each with an example, honest about mistakes."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from support.paths import ROOT
from swarm.mailbox.base.errors import SwarmError
from swarm.supervisor.base.exception_groups import first_error
from swarm.supervisor.clients.cli.base.command_words import ALIASES
from swarm.supervisor.clients.cli.base.lazy_commands import COMMAND_GROUPS, LAZY_COMMANDS
from swarm.supervisor.clients.cli.commands.run_execution import EXIT_CODES
from swarm.supervisor.clients.cli.main import cli, run_cli

DOCS = ROOT / "docs" / "commands.md"
HEAVY = {
    "trio",
    "zmq",
    "rich",
    "httpx",
    "httpcore",
    "yaml",
    "tomllib",
    "sqlite3",
    "asyncio",
    "msgspec",
}


def commands():
    context = click.Context(cli, info_name="swarm")
    found = {}
    for name in LAZY_COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": sub for inner, sub in command.commands.items()}
    return found


COMMANDS = commands()


def swarm(*words, **environment):
    program = "import sys; from swarm.supervisor.clients.cli.entry import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *words],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_help_and_version_import_nothing_heavy(words):
    program = (
        "import sys\nfrom swarm.supervisor.clients.cli.main import run_cli\n"
        f"code = run_cli({words!r})\nprint(code, *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    assert HEAVY.isdisjoint(modules)
    ours = {name for name in modules if name.startswith("swarm.")}
    folders = {name for name in ours if any(other.startswith(f"{name}.") for other in ours)}
    assert ours - folders <= {
        "swarm.mailbox.base.errors",
        "swarm.supervisor.base.version",
        "swarm.supervisor.clients.cli.main",
        "swarm.supervisor.clients.cli.base.lazy_commands",
        "swarm.supervisor.clients.cli.run_setup.click_values",
        "swarm.supervisor.clients.cli.base.command_words",
        "swarm.supervisor.clients.cli.base.early_processes",
        "swarm.supervisor.base.part_names",
    }


def test_version_and_help_say_what_they_are():
    assert swarm("--version").stdout.startswith("swarm 0.")
    text = swarm("--help", "--all").stdout
    assert all(f"  {name} " in text for name in LAZY_COMMANDS)


def test_the_short_help_names_every_command_within_a_screen():
    lines = swarm("--help", COLUMNS="80").stdout.splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    words = " ".join(lines).split()
    assert all(name in words for name in LAZY_COMMANDS)


@pytest.mark.parametrize("words", [["--help"], ["models", "list"], ["ps"]])
def test_output_that_cannot_be_written_is_an_error_in_words(words, tmp_path):
    with open("/dev/full", "w") as full:
        program = "from swarm.supervisor.clients.cli.entry import main; main()"
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, *words], stdout=full, stderr=subprocess.PIPE,
            text=True, timeout=60, env={**os.environ, "SWARM_HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    if words == ["ps"]:  # there is no run: nothing to write
        assert done.returncode == 0
        return
    assert done.returncode == 1
    assert done.stderr == ("swarm: standard output could not be written: No space left on device\n")


def test_a_fault_of_swarm_is_one_line_and_a_file(monkeypatch, tmp_path, capsys):
    def fail(*words, **given):
        raise RuntimeError("odd \x1b[2J sk-ant-api03-" + "a" * 93 + "AA")

    monkeypatch.setenv("SWARM_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "main", fail)
    assert run_cli(["ps"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "\x1b" not in said
    assert "sk-ant-api03-aaa" not in said
    (report,) = (tmp_path / "state" / "faults").iterdir()
    assert str(report) in said
    assert "RuntimeError" in report.read_text()
    assert "sk-ant-api03-aaa" not in report.read_text()
    assert report.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_documented_and_shows_an_example(name):
    assert f"swarm {name}" in DOCS.read_text(), f"docs/commands.md does not mention {name}"
    outcome = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert outcome.exit_code == 0
    assert "Example" in outcome.output
    assert f"swarm {name.split()[0]}" in outcome.output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_documented(name):
    text = DOCS.read_text()
    for parameter in COMMANDS[name].params:
        if isinstance(parameter, click.Option):
            longest = max(parameter.opts, key=len)
            assert longest in text, f"docs/commands.md does not mention {longest} of {name}"


def test_the_list_of_doors_says_what_the_commands_say():
    for name, door in LAZY_COMMANDS.items():
        first = (COMMANDS[name].help or "").strip().split("\n\n")[0]
        assert " ".join(first.split()) == door.short, name


def test_every_command_stands_under_one_heading_of_the_help_and_the_manual_page():
    placed = [name for names in COMMAND_GROUPS.values() for name in names]
    assert sorted(placed) == sorted(LAZY_COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["watsh"], "did you mean `watch`?"),
        (["task.md"], "swarm run task.md"),
        (["run", "--jso"], "Did you mean '--json'?"),
        (["run", "--sandbox", "none", "-p", "x"], "'none' is not one of"),
        (["run"], "no task: give a Markdown file"),
        (["run", "gone.md"], "gone.md: there is no such task file"),
        (["run", "a.md", "-p", "x"], "not both"),
        (["run", "-p", "x", "--notify", "'"], "--notify: No closing quotation"),
        (["run", "-p", "x", "-o", "/none/there/x"], "there is no folder /none/there"),
        (["resume", "x", "--last"], "not both"),
        (["ps", "extra"], "unexpected extra argument"),
        (["show", "nothing"], "there is no run yet"),
        (["rm", "nothing"], "there is no run yet"),
        (["send", "nothing", "root", "x"], "there is no run yet"),
        (["roles", "explain", "x"], "unknown role `x`"),
        (["config", "get", "x.y"], "no such key: x.y"),
        (["prune", "--older", "old"], "--older: 'old' is not a length of time"),
        (["stats"], "no command 'stats'; `swarm ps` lists runs"),
        (["stop"], "`swarm interrupt`: Stop the running turn of one agent, or of all; "),
        (["serch"], "`swarm memory search WORDS`"),
        (["revert"], "`swarm undo`: Put files back"),
        (["report"], "`swarm show`: Show what a run's agents came to"),
        (["update"], "swarm is updated as it was installed"),
        (["zzz"], "`swarm --help` lists all commands"),
        (["hooks", "test", "None"], "Invalid value for 'EVENT': 'None' is not one of"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_on_stderr_and_code_2(words, said, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SWARM_HOME", str(tmp_path))
    assert run_cli(words) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("swarm: ")
    assert said in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["list"], 0, "there is no run yet"),
        (["ls", "--limit", "2"], 0, "there is no run yet"),
        (["status"], 0, "there is no run yet"),
        (["status", "4f21c0aa"], 2, "there is no run yet"),
        (["tree"], 2, "there is no run"),
        (["help"], 0, "swarm COMMAND --help"),
        (["help", "--all"], 0, "Put files back as they were"),
        (["help", "undo"], 0, "swarm undo --list"),
        (["help", "list"], 0, "swarm ps --limit 20"),
        (["version"], 0, "swarm "),
    ],
)
def test_words_that_people_type_do_what_they_mean(words, code, said, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SWARM_HOME", str(tmp_path))
    assert run_cli(words) == code
    assert said in "".join(capfd.readouterr())


def test_no_word_is_explained_that_is_a_command_and_every_explanation_names_commands():
    assert not set(ALIASES) & set(LAZY_COMMANDS)
    assert set(ALIASES.values()) <= set(LAZY_COMMANDS)


def test_stdin_is_never_read_for_a_prompt(tmp_path):
    swarm = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry"]
    with subprocess.Popen(
        [*swarm, "run", "-p", "x", "--role", "no"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "SWARM_HOME": str(tmp_path)},
    ) as child:  # fmt: skip
        assert child.wait(timeout=60) == 2  # with stdin open and silent all the time
        child.communicate()


def test_a_reader_that_is_gone_is_no_noise(tmp_path):
    script = f"{sys.executable} -P -m swarm.supervisor.clients.cli.entry config list --json | true"
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=60,
        env={**os.environ, "SWARM_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stderr == ""


def test_the_exit_codes_are_those_of_the_contract():
    assert EXIT_CODES == {
        "completed": 0, "partial": 8, "truncated": 1, "failed": 1, "refused": 3, "budget": 4,
        "deadline": 4,
        "provider": 5, "sandbox": 6, "unmet": 7, "interrupted": 130, "terminated": 143,
    }  # fmt: skip


def test_only_errors_raised_on_purpose_are_taken_out_of_a_group():
    error = SwarmError("full")
    assert first_error(BaseExceptionGroup("g", [BaseExceptionGroup("h", [error])])) is error
    assert first_error(BaseExceptionGroup("g", [error, ValueError("bug")])) is None


def test_colour_may_stand_on_either_side(tmp_path):
    for words in (
        ["--color", "never", "config", "layers"],
        ["config", "layers", "--color", "never"],
    ):
        assert swarm(*words, SWARM_HOME=str(tmp_path)).returncode == 0


@pytest.mark.parametrize(
    ("platform", "words", "code"),
    [("darwin", ["run", "-p", "x"], 1), ("win32", ["ps"], 1), ("darwin", ["config", "layers"], 0)],
)
def test_elsewhere_the_first_line_says_what_does_not_work(
    platform, words, code, monkeypatch, capfd, tmp_path
):
    monkeypatch.setenv("SWARM_HOME", str(tmp_path))
    monkeypatch.setattr("swarm.supervisor.clients.cli.main.sys.platform", platform)
    assert run_cli(words) == code
    first = capfd.readouterr().err.splitlines()[0]
    assert "no sandbox" in first
    assert "here yet" in first
