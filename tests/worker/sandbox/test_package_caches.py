"""Where the caches of package managers go: table, decision, and what a plan makes of both."""

import pytest

from swarm.worker.sandbox.package_caches import (
    cache_variables,
    decide_moved,
    load_package_caches,
)
from swarm.worker.sandbox.sandbox_plan import SandboxPlan

TABLE = load_package_caches()
NPM = "npm_config_cache"


def moved(given, *, open_below=(), there=(), offline=True):
    return decide_moved(
        TABLE, given, folder="/tmp/.caches", offline=offline,
        is_writable=lambda path: any(path.startswith(one) for one in open_below),
        is_there=lambda path: path in there,
    )  # fmt: skip


def test_every_program_has_a_variable_of_its_own():
    names = [one.variable for one in TABLE]
    assert len(set(names)) == len(names)
    assert {one.place.partition("/")[0] for one in TABLE} <= {"HOME", "CACHE", "DATA"}
    assert "XDG_CACHE_HOME" not in names


def test_where_the_home_folder_is_closed_every_cache_goes_into_the_private_folder():
    found = moved({"HOME": "/home/me"})
    assert found.keys() == {one.variable for one in TABLE}
    assert found[NPM] == "/tmp/.caches/npm_config_cache"
    assert len(set(found.values())) == len(found)


def test_where_it_is_open_nothing_is_set():
    assert moved({"HOME": "/home/me"}, open_below=["/home/me/"]) == {}


@pytest.mark.parametrize(
    ("given", "is_moved"),
    [
        ({NPM: "/work/own"}, False),
        ({"NPM_CONFIG_CACHE": "/work/own"}, False),
        ({NPM: "/opt/cache"}, True),
        ({NPM: "relative"}, False),
        ({}, True),
    ],
)
def test_a_place_of_the_persons_own_counts_if_commands_can_write_there(given, is_moved):
    assert (NPM in moved({"HOME": "/home/me", **given}, open_below=["/work/"])) is is_moved


def test_under_which_name_a_closed_place_was_given_the_new_one_is_too():
    found = moved({"HOME": "/home/me", "NPM_CONFIG_CACHE": "/opt/cache"})
    assert found[NPM] == found["NPM_CONFIG_CACHE"]


def test_a_word_that_turns_a_cache_off_stays():
    assert "GOCACHE" not in moved({"HOME": "/home/me", "GOCACHE": "off"})


def test_what_is_read_while_it_is_closed_stays_in_use_if_it_is_there():
    home = {"HOME": "/home/me"}
    assert "CARGO_HOME" not in moved(home, there=["/home/me/.cargo"])
    assert "CARGO_HOME" in moved(home)
    assert NPM in moved(home, there=["/home/me/.npm"])
    yarn = ["/home/me/.yarn/berry", "/home/me/.cache/yarn"]
    assert not {"YARN_GLOBAL_FOLDER", "YARN_CACHE_FOLDER"} & moved(home, there=yarn).keys()


def test_where_a_command_has_the_network_only_what_cannot_be_fetched_again_stays():
    home, there = {"HOME": "/home/me"}, ["/home/me/.cargo", "/home/me/.yarn/berry"]
    found = moved(home, there=there, offline=False)
    assert ("CARGO_HOME" in found, "YARN_GLOBAL_FOLDER" in found) == (False, True)


def test_where_go_has_a_path_of_the_persons_own_its_modules_stay():
    home = {"HOME": "/home/me"}
    assert "GOMODCACHE" not in moved({**home, "GOPATH": "/work/go"})


def test_a_cache_follows_its_xdg_folder_and_without_a_home_nothing_is_known():
    assert "UV_CACHE_DIR" not in moved({"XDG_CACHE_HOME": "/work/c"}, open_below=["/work/"])
    assert "UV_CACHE_DIR" in moved({"XDG_CACHE_HOME": "/opt/c"})
    assert NPM not in moved({"XDG_CACHE_HOME": "/opt/c"})
    assert moved({}) == {}


def plan(**changes):
    return SandboxPlan(stack="landlock", tmp_dir="/tmp/swarm-x", **changes)


def test_a_plan_says_what_is_open(tmp_path):
    home = {"HOME": str(tmp_path)}
    assert NPM in cache_variables(plan(), home)
    assert cache_variables(plan(), home)[NPM] == "/tmp/swarm-x/.caches/npm_config_cache"
    assert cache_variables(plan(writable=(str(tmp_path),)), home) == {}
    assert [*cache_variables(plan(writable=(str(tmp_path),),
                                  protected=(f"{tmp_path}/.npm",)), home)] == [NPM]  # fmt: skip
    assert NPM not in cache_variables(plan(), {"HOME": "/tmp/swarm-x/home"})
    shown = plan(visible=("/tmp/swarm-x/home",))
    assert NPM in cache_variables(shown, {"HOME": "/tmp/swarm-x/home"})


def test_a_link_counts_as_what_it_leads_to(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".npm").symlink_to(tmp_path / "disk")
    opened = plan(writable=(str(tmp_path / "disk"),))
    assert NPM not in cache_variables(opened, {"HOME": str(tmp_path / "home")})


def test_without_a_sandbox_or_a_writable_folder_of_its_own_a_command_keeps_its_caches():
    home = {"HOME": "/home/me"}
    assert cache_variables(SandboxPlan(), home) == {}
    assert cache_variables(plan(tmp_writable=False), home) == {}
    assert cache_variables(SandboxPlan(stack="landlock"), home) == {}
