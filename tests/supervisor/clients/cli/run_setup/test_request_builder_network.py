"""From flags, task files and configuration to what the run's proxy lets through."""

import sys

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import NetworkPolicy, UnixSockets, WorkspaceWrite
from swarm.supervisor.clients.cli.run_setup.options import RunOptions
from swarm.supervisor.clients.cli.run_setup.request_builder import build_request
from swarm.supervisor.clients.cli.run_setup.run_settings import load_settings
from swarm.supervisor.clients.cli.run_setup.task_file import parse_task

FILE = "[network]\nenabled = true\nmode = 'limited'\ndomains = {'a.org' = 'allow'}\n"


@pytest.fixture
def build(tmp_path, monkeypatch):
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "one.txt").touch()
    monkeypatch.chdir(project)

    def make(front="", file="", **options):
        (home / "config.toml").write_text(file)
        text = f"---\n{front}\n---\nThe task." if front else "The task."
        chosen = RunOptions(**options)
        environment = {"SWARM_HOME": str(home), "PATH": "/bin"}
        settings = load_settings(chosen, parse_task(text, name="t.md", task="t.md"), environment)
        return build_request(
            chosen, settings, environment=environment, run_lines=lambda *_: "x\ny\n"
        )

    return make


@pytest.mark.parametrize(
    ("front", "file", "options", "policy"),
    [
        ("", "", {}, None),
        ("", "", {"allow_domain": ("B.org",)}, NetworkPolicy(allow=("b.org",))),
        ("network: {allow: ['*.b.org'], deny: [c.b.org]}", "", {},
         NetworkPolicy(allow=("*.b.org",), deny=("c.b.org",))),
        ("network: {deny: [b.org]}", FILE, {"allow_domain": ("c.org",)},
         NetworkPolicy(allow=("a.org", "c.org"), deny=("b.org",), mode="limited")),
        ("network: {deny: [a.org]}", FILE, {}, NetworkPolicy(deny=("a.org",), mode="limited")),
        ("", FILE, {"config": ("network.enabled=false",)}, None),
        ("", FILE, {"role": "explorer"}, None),
    ],
)  # fmt: skip
def test_layers_add_up_and_a_reading_role_has_none(build, front, file, options, policy):
    assert build(front, file, **options).request.network == policy


def test_where_the_proxy_is_on_it_is_the_only_way_out(build):
    file = "[sandbox_workspace_write]\nnetwork_access = true\n"
    assert build(file=file).request.sandbox == WorkspaceWrite(network_access=True)
    assert build(file=file, allow_domain=("a.org",)).request.sandbox == WorkspaceWrite()


def test_items_of_a_fan_out_have_what_their_role_leaves(build):
    fan = "fan_out: {each: {files: '*.txt'}, prompt: 'p {item}', role: ROLE}"
    kept = build(fan.replace("ROLE", "worker"), FILE).request
    assert kept.fan_out.agents.network == kept.network is not None
    assert build(fan.replace("ROLE", "explorer"), FILE).request.fan_out.agents.network is None


def test_without_a_sandbox_one_is_told_that_the_list_holds_nobody(build):
    prepared = build(sandbox="danger-full-access", allow_domain=("a.org",))
    assert any("nothing holds commands" in warning for warning in prepared.warnings)


@pytest.mark.parametrize(
    ("front", "file", "options", "words"),
    [
        ("", "", {"allow_domain": ("a b",)}, "network.domains: not a domain pattern: 'a b'"),
        ("network: {deny: ['*']}", "", {}, "unsupported global wildcard domain pattern"),
        ("network: {allows: []}", "", {}, "key network.allows: unknown key; did you mean `allow`"),
        (
            "",
            "[network]\nmode = 'some'",
            {},
            r"config.toml, line 2, network.mode: 'some' is not known; there are",
        ),
        ("", "default_permissions = 'x'", {}, "requires a `[permissions]` table"),
    ],
)
def test_what_cannot_be_is_told_before_anything_starts(build, front, file, options, words):
    with pytest.raises(UsageError) as raised:
        build(front, file, **options)
    assert words in str(raised.value)


def test_an_unknown_key_of_the_table_is_a_warning(build):
    prepared = build(file="[network]\nenable = true\n")
    assert any("network.enable: unknown key" in warning for warning in prepared.warnings)


SOCKETS = "[network]\nunix_sockets = { '/srv/a.sock' = 'allow', '/srv/b.sock' = 'none' }\n"


def test_unix_sockets_are_opened_by_rule_with_and_without_the_proxy(build):
    expected = UnixSockets(allow=("/srv/a.sock",), deny=("/srv/b.sock",))
    plain = build(file=SOCKETS).request
    assert (plain.network, plain.unix_sockets) == (None, expected)
    assert build(file=SOCKETS, allow_domain=("a.org",)).request.unix_sockets == expected
    assert build(file=SOCKETS, role="explorer").request.unix_sockets == UnixSockets()


def test_an_administrators_list_of_sockets_refuses_others_and_holds_for_everybody(build, tmp_path):
    folder = tmp_path / "home" / "system"
    folder.mkdir()
    (folder / "requirements.toml").write_text(
        "[experimental_network]\nunix_sockets = { '/srv/own.sock' = 'allow' }\n"
    )
    assert build().request.unix_sockets == UnixSockets(allow=("/srv/own.sock",))
    with pytest.raises(UsageError, match="experimental_network"):
        build(file=SOCKETS)
    with pytest.raises(UsageError, match="experimental_network"):
        build(file="[network]\ndangerously_allow_all_unix_sockets = true\n")


def test_without_the_package_nothing_starts_that_would_look_into_tunnels(build, monkeypatch):
    file = "[network]\nenabled = true\nmode = 'limited'\nmitm = true\n"
    assert build(file=file).request.network == NetworkPolicy(mode="limited", mitm=True)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match=r"scripts/venv mitm|mitm\]|cryptography>="):
        build(file=file)
    build(file=file.replace("limited", "full"))
