"""Words stand in a command's place only where the policy knows that it just reads."""

import pytest

from swarm.mailbox.protocol.parsed_command import ListFiles, ReadFile, Search
from swarm.mailbox.protocol.values.limits import Limits
from swarm.worker.policy.command_facts import gather_facts
from swarm.worker.policy.command_summary import parse_command, shown_meanings


def shown(script, shell="/bin/bash"):
    return shown_meanings(gather_facts((shell, "-c", script), Limits()))


@pytest.mark.parametrize(
    ("script", "meanings"),
    [
        (
            "sed -n '1,200p' src/a.py",
            (ReadFile(cmd="sed -n '1,200p' src/a.py", name="a.py", path="src/a.py"),),
        ),
        ("cd src && cat a.py", (ReadFile(cmd="cat a.py", name="a.py", path="src/a.py"),)),
        ("ls -la src", (ListFiles(cmd="ls -la src", path="src"),)),
        ("rg -n foo src", (Search(cmd="rg -n foo src", query="foo", path="src"),)),
        (
            "cat a && cat b",
            (ReadFile(cmd="cat a", name="a", path="a"), ReadFile(cmd="cat b", name="b", path="b")),
        ),
    ],
)
def test_what_only_reads_is_shown_as_what_it_reads(script, meanings):
    assert shown(script) == meanings


@pytest.mark.parametrize(
    "script",
    [
        "find . -delete",
        "rg --pre ./run x",
        "git grep -Oprogram x",
        "fd x -x rm",
        "awk 'BEGIN{system(\"rm a\")}' f",
        "python3 -c 'import os; os.listdir(1)'",
    ],
)
def test_what_has_the_shape_of_reading_and_is_not_known_to_is_shown_as_it_is(script):
    looks = parse_command(("/bin/bash", "-c", script))
    assert not any(type(one).__name__ == "Unknown" for one in looks)  # its shape alone would do
    assert shown(script) == ()


@pytest.mark.parametrize("script", ["cat a > b", "cat a; rm b", "cat $HOME/x", "make", "cd x", ""])
def test_what_is_not_understood_is_shown_as_it_is(script):
    assert shown(script) == ()


def test_a_shell_of_unknown_origin_is_believed_nothing():
    assert shown("cat a", shell="/tmp/bash") == ()


def test_no_command_makes_its_record_much_larger():
    assert shown("cat " + "a" * 600)
    assert shown("cat " + "a" * 1_500) == ()  # thrice in its words
    assert shown(" && ".join(f"cat f{n}" for n in range(9))) == ()
    assert shown("cat " + " ".join(f"f{n}" for n in range(2_000))) == ()
