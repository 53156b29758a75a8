"""Which Unix sockets a run, its roles and an administrator let commands connect to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import UnixSockets
from swarm.roles.config.layers.requirements import NetworkRequirements
from swarm.roles.config.schema import Config, NetworkTable, WorkspaceTable
from swarm.roles.rights.narrow import narrow_role_sockets
from swarm.roles.rights.role import Role
from swarm.roles.rights.unix_sockets import (
    apply_socket_requirements,
    intersect_sockets,
    read_socket_table,
    run_socket_rules,
)

PATHS = ("/srv/a.sock", "/srv/b.sock", "/srv/c.sock")
some = st.lists(st.sampled_from(PATHS), unique=True).map(tuple)
rules = st.builds(UnixSockets, allow=some, deny=some, every=st.booleans())
demands = st.builds(
    NetworkRequirements,
    sockets=st.none() | st.dictionaries(st.sampled_from(PATHS), st.sampled_from(("allow", "none"))),
    all_sockets=st.none() | st.booleans(),
)


def permitted(sockets):
    return {path for path in (*PATHS, "/srv/unheard-of") if sockets.permits(path)}


@given(rules, rules)
def test_two_together_allow_what_each_of_them_allows(one, other):
    assert permitted(intersect_sockets(one, other)) == permitted(one) & permitted(other)


@given(rules, demands)
def test_an_administrator_only_takes_away(sockets, demand):
    tight = apply_socket_requirements(sockets, demand)
    assert permitted(tight) <= permitted(sockets)
    listed = demand.sockets
    if listed is not None:
        assert not {path for path, word in listed.items() if word == "none"} & permitted(tight)
        if not demand.all_sockets:
            assert permitted(tight) <= {path for path, word in listed.items() if word == "allow"}
    if demand.all_sockets is False:
        assert not tight.every


def test_an_empty_list_forbids_every_socket():
    wide = UnixSockets(allow=PATHS, every=True)
    assert permitted(apply_socket_requirements(wide, NetworkRequirements(sockets={}))) == set()


@pytest.mark.parametrize(
    ("mode", "table", "wants_network", "expected"),
    [
        (None, None, False, PATHS),
        ("workspace-write", None, False, PATHS),
        ("read-only", None, False, ()),
        ("read-only", None, True, PATHS),
        ("read-only", UnixSockets(allow=(PATHS[1], "/srv/z")), False, (PATHS[1],)),
        (None, UnixSockets(), False, ()),
    ],
)
def test_a_role_has_no_more_than_its_parent_and_a_reading_one_what_it_names(
    mode, table, wants_network, expected
):
    parent = UnixSockets(allow=PATHS)
    workspace = WorkspaceTable(network_access=True) if wants_network else None
    role = Role(name="r", sandbox_mode=mode, unix_sockets=table, workspace=workspace)
    own = narrow_role_sockets(parent, role)
    assert own.allow == expected


def test_a_link_is_known_by_what_it_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    table = NetworkTable(unix_sockets={f"{tmp_path}/link/s": "allow", "/srv/x": "none"})
    assert read_socket_table(table, "network") == UnixSockets(
        allow=(f"{tmp_path}/real/s",), deny=("/srv/x",)
    )


@pytest.mark.parametrize(
    "path", ["run/x.sock", "", "/run/../etc/x", "/dev/log/../x", "/proc/1/x", "/", "/a\0b"]
)
def test_a_path_that_cannot_be_is_an_error_with_its_place(path):
    with pytest.raises(UsageError, match=r"network\.unix_sockets: "):
        read_socket_table(NetworkTable(unix_sockets={path: "allow"}), "network")


def test_a_profiles_sockets_join_the_runs_own_also_where_the_proxy_is_off():
    config = Config(
        network=NetworkTable(unix_sockets={"/srv/a.sock": "allow"}), default_permissions="dev"
    )
    profile = NetworkTable(unix_sockets={"/srv/b.sock": "allow", "/srv/a.sock": "none"})
    assert permitted(run_socket_rules(config, profile)) == {"/srv/b.sock"}
    assert permitted(run_socket_rules(config)) == {"/srv/a.sock"}
