"""`isolation` of a configuration: a word or a table; what a project may say of it."""

import msgspec
import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.isolation_table import IsolationTable, isolation_table
from swarm.roles.config.layers.project_config import DENIED_INNER_KEYS
from swarm.roles.config.schema import Config


def test_the_word_and_the_table_mean_the_same():
    word = msgspec.convert({"isolation": "run"}, Config).isolation
    table = msgspec.convert({"isolation": {"mode": "run"}}, Config).isolation
    assert isolation_table(word) == isolation_table(table) == IsolationTable(mode="run")


@pytest.mark.parametrize("given", [{"mode": "ran"}, {"prepared": []}, {"prepare": "npm ci"}, "ran"])
def test_what_it_does_not_know_is_an_error(given):
    with pytest.raises(msgspec.ValidationError, match="isolation"):
        msgspec.convert({"isolation": given}, Config)


@pytest.mark.parametrize(
    "table",
    [
        IsolationTable(prepare=(" ",)),
        IsolationTable(prepare=("true",), prepare_inputs=("",)),
        IsolationTable(prepare=("true",) * 21),
    ],
)
def test_an_empty_or_an_endless_list_is_an_error_that_names_the_key(table):
    with pytest.raises(UsageError, match=r"isolation\.prepare"):
        isolation_table(table)


def test_a_project_sets_no_commands_that_run_with_the_network():
    assert ("isolation", "prepare") in DENIED_INNER_KEYS
