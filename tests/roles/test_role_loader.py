"""Roles: a bad one stops nobody who does not ask for it; whoever asks gets the reason."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.config_loader import read_layer
from swarm.roles.role_loader import UnusableRole, find_role, load_roles

GOOD = "name = 'scout'\ndescription = 'looks'\ndeveloper_instructions = 'Look.'\n"


@pytest.fixture
def layer(tmp_path):
    def make(config="", **files):
        (tmp_path / "config.toml").write_text(config)
        (tmp_path / "agents").mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / "agents" / f"{name}.toml").write_text(text)
        return read_layer("user", tmp_path / "config.toml")

    return make


def test_the_built_in_roles_are_whole():
    roles = load_roles(())
    assert set(roles.known) == {
        "default", "explorer", "worker", "merger", "guardian", "code-reviewer",
    }  # fmt: skip
    assert roles.known["explorer"].sandbox_mode == "read-only"
    assert roles.known["explorer"].brief().locked
    assert "explorer" in roles.known["explorer"].developer_instructions
    assert not roles.known["worker"].brief().locked
    assert all(role.description for role in roles.known.values())


def test_a_role_file_is_found_beside_the_configuration(layer):
    roles = load_roles([layer(scout=GOOD + "model = 'm'\nsandbox_mode = 'read-only'")])
    scout = find_role(roles, "scout")
    assert (scout.model, scout.sandbox_mode) == ("m", "read-only")
    assert scout.developer_instructions == "Look."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("description = 'x'\ndeveloper_instructions = 'y'", "needs `name`"),
        ("name = 'bad'\ndescription = 'x'", "needs `developer_instructions`"),
        ("name = 'bad'\ndescription = 'x'\ndeveloper_instructions = ' '", "needs `dev"),
        ("name = 'bad'\ndeveloper_instructions = 'y'", "must define a description"),
        ("name = 'bad'\ndescription = ' '\ndeveloper_instructions = 'y'", "must not be blank"),
        (GOOD.replace("scout", "bad") + "notify = ['x']", "line 4, notify: a role may not set it"),
        (GOOD.replace("scout", "bad") + "tools = ['exec_comand']", "line 4, tools: there is no "
         "tool `exec_comand`; did you mean `exec_command`. The tools: "),
        (GOOD.replace("scout", "bad") + "temperature = 3", "line 4, temperature"),
        (GOOD.replace("scout", "bad") + "sandbox_mode = 'none'",
         "'none' is not known; there are danger-full-access, read-only, workspace-write"),
        (GOOD.replace("scout", "bad") + "nickname_candidates = ['a', 'a']", "duplicates"),
        (GOOD.replace("scout", "bad") + "nickname_candidates = ['a/b']", "ASCII letters"),
        (GOOD.replace("scout", "bad") + "nickname_candidates = [' ']", "blank names"),
        (GOOD.replace("scout", "bad") + "model_instructions_file = 'gone.md'", "failed to read"),
        (GOOD.replace("scout", "bad") + "prompt_file = '../../x'", "built-in roles"),
        (GOOD.replace("scout", "bad") + "prompt = 'tiny'", "line 4, prompt: 'tiny' is not known; "
         "there are full, short"),
        ("name = ", "not valid TOML"),
    ],
)  # fmt: skip
def test_a_role_that_cannot_be_honoured_is_an_error_only_for_who_asks(layer, text, words):
    roles = load_roles([layer(bad=text, scout=GOOD)])
    assert find_role(roles, "scout").name == "scout"
    assert any("ignoring malformed agent role" in warning for warning in roles.warnings)
    with pytest.raises(UnusableRole, match=words):
        find_role(roles, "bad")


def test_a_broken_redefinition_does_not_fall_back_to_the_built_in_role(layer):
    roles = load_roles([layer(explorer="name = 'explorer'\nmodle = 'x'")])
    with pytest.raises(UnusableRole, match="modle"):
        find_role(roles, "explorer")


def test_a_user_role_shadows_a_built_in_one_and_takes_what_it_leaves_out(layer):
    text = "name = 'worker'\ndeveloper_instructions = 'Mine.'"
    roles = load_roles([layer(worker=text)])
    assert roles.known["worker"].developer_instructions == "Mine."
    assert "bounded piece of work" in roles.known["worker"].description


def test_declared_roles_come_before_found_ones(layer):
    config = "[agents.scout]\ndescription = 'declared'\n[agents]\nmax_threads = 3"
    roles = load_roles([layer(config.replace("[agents]\n", "[agents.other]\ndescription='o'\n", 1)
                              .replace("max_threads = 3", ""), scout=GOOD)])  # fmt: skip
    assert roles.known["scout"].description == "declared"
    assert any("duplicate agent role name `scout`" in words for words in roles.warnings)


def test_an_unknown_role_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean `explorer`"):
        find_role(load_roles(()), "explorr")
