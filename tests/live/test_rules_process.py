"""Rule files through real processes: hostile ones end there; the commands print what they say."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.forked_programs import Setting, run_program
from support.scripted_team_run import SWARM
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.rules import RuleSet
from swarm.roles.config.layers.merge import Layer
from swarm.roles.rules.rule_loader import MAX_BYTES, load_files, load_layer_rules

pytestmark = pytest.mark.live
EXAMPLE = Path(__file__).parents[2] / "examples" / "default.rules"


def swarm(*words, cwd=None, **environment):
    return run_program([SWARM, *words], Setting({**os.environ, **environment}, cwd or Path.cwd()))


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def layers_in(tmp_path: Path, *names: str) -> list[Layer]:
    return [Layer(name=name, source=str(tmp_path / name / "config.toml")) for name in names]


def test_files_of_all_folders_count_in_order(tmp_path):
    write(tmp_path / "low" / "rules", "b.rules", 'prefix_rule(pattern=["b"])')
    write(tmp_path / "low" / "rules", "a.rules", 'prefix_rule(pattern=["a"])')
    write(tmp_path / "low" / "rules", "notes.txt", "not rules")
    (tmp_path / "low" / "rules" / "c.rules").mkdir()
    write(
        tmp_path / "high" / "rules",
        "z.rules",
        '\ufeffprefix_rule(pattern=["z"], decision="forbidden")',
    )
    loaded = load_layer_rules(layers_in(tmp_path, "low", "absent", "high"))
    assert [one.pattern[0][0] for one in loaded.rules.prefixes] == ["a", "b", "z"]
    assert [Path(name).name for name in loaded.files] == ["a.rules", "b.rules", "z.rules"]
    assert loaded.warnings == ()


def test_no_file_starts_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    assert load_layer_rules(layers_in(tmp_path, "absent")).rules == RuleSet()


def test_one_broken_file_and_no_rule_is_known(tmp_path):
    good = write(tmp_path, "a.rules", 'prefix_rule(pattern=["a"])')
    bad = write(tmp_path, "b.rules", "\nprefix_rule(pattern=[])")
    loaded = load_files([good, bad])
    why = f"{bad}:2: invalid pattern element: pattern cannot be empty"
    assert loaded.rules == RuleSet(broken=why)
    assert why in loaded.warnings[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("for i in range(1000000000):\n    pass", "takes too long"),
        ("x = 9\nfor i in range(40):\n    x = x * x", "takes too long"),
        ("x = [0] * 1000000000", "too much memory"),
        ("x = [i for i in range(1000000000)]", "too much memory"),
        (f"x = {'[' * 20_000}{']' * 20_000}", "nested too deeply"),
        (f"x = {'-' * 200_000}1", "nested too deeply"),
        ("w = 'x' * 90000\nfor i in range(200):\n    prefix_rule(pattern=[w])", "too long"),
    ],
)
def test_a_hostile_file_is_broken_and_its_neighbours_are_not_blamed(text, why, tmp_path):
    good = write(tmp_path, "a.rules", 'prefix_rule(pattern=["a"])')
    bad = write(tmp_path, "b.rules", text)
    loaded = load_files([good, bad])
    assert loaded.broken_file == str(bad)
    broken = loaded.rules.broken.replace("took too long", "takes too long")  # on a busy machine
    assert why in broken


def test_bytes_that_are_no_text_are_a_broken_file(tmp_path):
    path = tmp_path / "a.rules"
    path.write_bytes(b"# \xff")
    assert load_files([path]).rules.broken == f"{path}: not UTF-8 at byte 2"


def test_what_cannot_be_read_is_an_error_that_names_it(tmp_path):
    large = write(tmp_path, "large.rules", "#" * (MAX_BYTES + 1))
    os.mkfifo(tmp_path / "fifo.rules")
    for path in (large, tmp_path / "fifo.rules", tmp_path / "absent.rules", tmp_path):
        with pytest.raises(UsageError, match=f"failed to read rules file {path}"):
            load_files([path])


def test_rules_lie_beside_every_configuration_that_counts(tmp_path):
    write(tmp_path / "system" / "rules", "a.rules", 'prefix_rule(pattern=["a"])')
    write(tmp_path / "rules", "b.rules", 'prefix_rule(pattern=["b"])')
    write(tmp_path / "p" / ".swarm" / "rules", "c.rules", 'prefix_rule(pattern=["c"])')
    layers = (
        Layer(name="system", source=str(tmp_path / "system" / "config.toml"), exists=False),
        Layer(name="user", source=str(tmp_path / "config.toml")),
        Layer(name="profile", source=str(tmp_path / "work.config.toml")),
        Layer(
            name="project", source=str(tmp_path / "p/.swarm/config.toml"), ignored="not trusted",
            files={},
        ),
        Layer(name="-c"),
    )  # fmt: skip
    assert [one.pattern for one in load_layer_rules(layers).rules.prefixes] == [
        (("a",),),
        (("b",),),
    ]


def test_rules_of_a_trusted_project_are_those_that_were_read_not_those_on_disk(tmp_path):
    path = write(tmp_path / ".swarm" / "rules", "a.rules", 'prefix_rule(pattern=["later"])')
    layer = Layer(
        name="project", source=str(tmp_path / ".swarm" / "config.toml"), exists=False,
        files={str(path): b'prefix_rule(pattern=["trusted"], decision="forbidden")'},
    )  # fmt: skip
    loaded = load_layer_rules((layer,))
    assert [one.pattern for one in loaded.rules.prefixes] == [(("trusted",),)]
    assert loaded.files == (str(path),)


def test_no_key_reaches_the_process_that_evaluates(tmp_path, monkeypatch):
    seen = {}
    real = subprocess.run

    def spy(*words, **options):
        seen.update(options["env"])
        return real(*words, **options)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr(subprocess, "run", spy)
    load_files([write(tmp_path, "a.rules", "")])
    assert "PATH" in seen
    assert "OPENAI_API_KEY" not in seen


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["git", "status"], '{"matchedRules":[]}'),
        (
            ["shutdown", "now"],
            '{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["shutdown"],'
            '"decision":"forbidden","justification":"This is somebody\'s machine."}}],'
            '"decision":"forbidden"}',
        ),
        (["/usr/bin/git", "pull"], '{"matchedRules":[]}'),
        (["bash", "-lc", "shutdown"], '{"matchedRules":[]}'),
    ],
)
def test_execpolicy_check_prints_one_line_of_json(words, expected):
    done = swarm("execpolicy", "check", "-r", str(EXAMPLE), "--", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected + "\n", "")


def test_execpolicy_check_resolves_and_indents_when_asked(tmp_path):
    path = write(tmp_path, "a.rules", 'prefix_rule(pattern=["git"], justification="é")')
    done = swarm(
        "execpolicy", "check", "-r", str(path), "--pretty", "--resolve-host-executables",
        "/tmp/git", "-x",
    )  # fmt: skip
    match = {
        "matchedPrefix": ["git"], "decision": "allow", "resolvedProgram": "/tmp/git",
        "justification": "é",
    }  # fmt: skip
    answer = {"matchedRules": [{"prefixRuleMatch": match}], "decision": "allow"}
    assert done.stdout == json.dumps(answer, indent=2, ensure_ascii=False) + "\n"


def test_execpolicy_check_says_what_is_wrong_with_a_file(tmp_path):
    path = write(tmp_path, "a.rules", 'prefix_rule(pattern=["a"], decision="b")')
    done = swarm("execpolicy", "check", "-r", str(path), "--", "ls")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"Error: failed to parse policy at {path}\n\n"
        f"Caused by:\n    {path}:1: invalid decision: b\n"
    )
    missing = swarm("execpolicy", "check", "-r", str(tmp_path / "none"), "--", "ls")
    assert (missing.returncode, "failed to read rules file" in missing.stderr) == (2, True)


def test_explain_uses_the_rules_and_the_configuration_of_this_folder(tmp_path):
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    write(home, "config.toml", 'sandbox_mode = "read-only"\n')
    rules = write(home / "rules", "mine.rules", 'prefix_rule(pattern=["make"], decision="prompt")')
    done = swarm("explain", "--json", "--", "make all && ls", cwd=work, SWARM_HOME=str(home))
    found = json.loads(done.stdout)
    assert (found["verdict"], found["cause"], found["cwd"]) == ("ask", "rule", str(work))
    assert found["sandbox"]["policy"] == "read-only"
    assert [rule["file"] for rule in found["commands"][0]["rules"]] == [str(rules)]
    text = swarm("explain", "-a", "never", "make", cwd=work, SWARM_HOME=str(home))
    assert "verdict   refused, unasked" in text.stdout


def test_explain_warns_of_a_broken_rule_file(tmp_path):
    bad = write(tmp_path / "rules", "a.rules", "x = (")
    done = swarm("explain", "--", "ls", SWARM_HOME=str(tmp_path))
    assert done.returncode == 0
    assert f"{bad}:1: Parse error" in done.stderr
