"""Permission profiles as people write them: every entry is kept to, or refused with its reason."""

import os

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import access_at
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly, WorkspaceWrite
from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.merge import Layer
from swarm.roles.rights.permission_profiles import ProfileContext, chosen_profile, resolve_profile


@pytest.fixture
def place(tmp_path):
    """`work` is the working folder, `more` a further root, `link` leads to `data`."""
    home = tmp_path.resolve()
    for name in ("work/docs", "more", "data/sub", "home"):
        (home / name).mkdir(parents=True)
    (home / "link").symlink_to("data")
    return home


def resolve(place, files, *, roots=(), **table):
    ground = ProfileContext(cwd=str(place / "work"), roots=roots, home=str(place / "home"))
    whole = {"p": {"filesystem": {":project_roots": "write", ":minimal": "read", **files}, **table}}
    return resolve_profile("p", whole, ground)


def at(granted, path):
    return access_at(granted.policy.rules, str(path))


def test_special_names_are_spelled_out(place):
    granted = resolve(place, {":tmpdir": "write"}, roots=(str(place / "more"),))
    policy = granted.policy
    assert policy.tmp == "write"
    assert policy.workspace == (str(place / "work"), str(place / "more"))
    assert [at(granted, place / name) for name in ("work/x", "more/x", "data")] == [
        "write", "write", "deny",
    ]  # fmt: skip
    assert at(granted, "/usr/bin/env") == "read"
    assert at(granted, "/var") == "deny"
    assert granted.warnings == ()


@pytest.mark.parametrize(
    ("files", "path", "access"),
    [
        ({":root": "read"}, "/var", "read"),
        ({":root": "write", "{}/data": "none"}, "data/sub", "deny"),
        ({"{}/data": {".": "read", "sub": "write"}}, "data/sub", "write"),
        ({"{}/data": {".": "read", "sub": "write"}}, "data", "read"),
        ({"{}/data/**": "read"}, "data/sub", "read"),
        ({":workspace_roots": {".": "read", "docs": "write"}, ":project_roots": "read"},
         "work/docs", "write"),
        ({":project_roots": {".": "write", "docs": "deny"}}, "work/docs/x", "deny"),
        ({":project_roots": {".": "write", "docs/**": "deny"}}, "work/docs/x", "deny"),
        ({"~/cache": "write"}, "home/cache/x", "write"),
        ({"{}/link": "read"}, "data/sub", "read"),
        ({":root": "read", "{}/link": "deny"}, "data/sub", "deny"),
        ({":root": "read", "{}/link/sub": "deny"}, "link/sub", "deny"),
    ],
)  # fmt: skip
def test_an_entry_holds_at_its_place_and_where_a_link_leads(place, files, path, access):
    files = {key.replace("{}", str(place)): value for key, value in files.items()}
    assert at(resolve(place, files), place / path) == access


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"data": "read"}, "path `data` must be absolute, use `~/...`, or start with `:`"),
        ({"/a/../b": "read"}, "must not hold `..`"),
        ({":tmpdir": {"x": "read"}}, "`:tmpdir` does not support nested entries"),
        ({":root": {".": "read", "x": "deny"}}, "`:root` does not support nested entries"),
        ({":minimal": "write"}, "`:minimal` only supports `read`"),
        ({":project_roots": {"../x": "read"}}, "subpath `../x` must be a descendant path"),
        ({":project_roots": {"a/./x": "read"}}, "must be a descendant path"),
        ({":project_roots": {"/etc": "write"}}, "must be a descendant path"),
        ({":project_roots": {"*.x": "read"}}, "only supports `deny` access"),
        ({":project_roots": {"a/**": "write"}}, "only supports `deny` access"),
        ({"/srv/**/*.pem": "write"}, "only supports `deny` access"),
        ({"/**/*.pem": "deny"}, "would search the whole machine"),
        ({":project_roots": {"[z-a]": "deny"}}, "glob path"),
        ({"glob_scan_max_depth": 0}, "glob_scan_max_depth must be at least 1"),
        ({"glob_scan_max_depth": "read"}, "glob_scan_max_depth must be at least 1"),
        ({"/data": 3}, "needs read, write or deny"),
        ({"/data": "exec"}, "permissions.p.filesystem.*: 'exec' is not known; there are "),
        ({":project_roots": "deny"}, "could not read the working folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_to_is_refused(place, files, words):
    with pytest.raises(UsageError) as caught:
        resolve(place, files)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({":new": "read"}, "unknown special path `:new` is ignored"),
        (
            {":project_roots": {".": "write", "**/*.env": "deny"}},
            "`**` without glob_scan_max_depth",
        ),
        ({"/nowhere/at/all": "write"}, "`/nowhere/at/all` does not exist"),
        ({"/dev/kvm": "write"}, "a sandbox has its own"),
        ({"/sys/kernel": "write"}, "`/sys/kernel` is the kernel's"),
        ({":minimal": "none"}, "hardly any program can start"),
    ],
)
def test_what_may_surprise_is_said(place, files, words):
    assert any(words in warning for warning in resolve(place, files).warnings)


def test_the_kernels_settings_are_read_alone(place):
    given = resolve(place, {":root": "write", "/sys/kernel": "write", "/sys/block": "read"})
    assert [at(given, path) for path in ("/sys/kernel/mm", "/sys/block/x")] == ["read", "read"]


def test_patterns_keep_their_folder(place):
    os.mkdir(place / "odd[1]")
    ground = ProfileContext(cwd=str(place / "odd[1]"))
    files = {":project_roots": {".": "write", "**/*.env": "none"}, "glob_scan_max_depth": 3}
    policy = resolve_profile("p", {"p": {"filesystem": files}}, ground).policy
    assert policy.deny_globs == (f"{place}/odd[[]1]/**/*.env",)
    assert policy.glob_depth == 3
    assert access_at(policy.rules, f"{place}/odd[1]/x") == "write"


def test_the_older_modes_have_names():
    ground = ProfileContext(cwd="/", roots=("/more",))
    names = (":read-only", ":workspace", ":danger-full-access", ":danger-no-sandbox")
    assert [resolve_profile(name, {}, ground).policy for name in names] == [
        ReadOnly(), WorkspaceWrite(writable_roots=("/more",)), DangerFullAccess(),
        DangerFullAccess(),
    ]  # fmt: skip


def test_a_profile_extends_another_entry_by_entry(place):
    tables = {
        "base": {"extends": ":workspace", "filesystem": {"/opt": "deny"}},
        "mine": {
            "extends": "base",
            "filesystem": {":workspace_roots": {"docs": "read"}},
            "network": {"enabled": True},
        },
    }
    granted = resolve_profile("mine", tables, ProfileContext(cwd=str(place / "work")))
    assert granted.policy.tmp == "write"
    paths = (place / "work/x", place / "work/docs/x", "/opt/x", "/etc")
    assert [at(granted, path) for path in paths] == [
        "write", "read", "deny", "read",
    ]  # fmt: skip
    assert granted.network is not None
    assert granted.network.enabled


@pytest.mark.parametrize(
    ("name", "tables", "words"),
    [
        ("x", {}, "requires a `[permissions]` table: `x` is none of :read-only, :workspace"),
        ("x", {"y": {}}, "default_permissions refers to undefined profile `x`"),
        (":x", {}, "default_permissions refers to unknown built-in profile `:x`"),
        ("a", {"a": {"extends": "b"}, "b": {"extends": "a"}}, "extends itself (a → b → a)"),
        ("a", {"a": {"extends": "a"}}, "extends itself"),
        ("a", {"a": {"extends": "b"}}, "permissions.a.extends: no profile `b`"),
        ("a", {"a": {"extends": ":danger-full-access"}}, "cannot be extended"),
        ("a", {"a": {}}, "could not read the working folder"),
    ],
)
def test_a_profile_that_is_none_is_refused(name, tables, words):
    with pytest.raises(UsageError) as caught:
        resolve_profile(name, tables, ProfileContext(cwd="/usr"))
    assert words in str(caught.value)


def test_a_key_that_no_profile_has_is_a_warning():
    table = {"permissions": {"p": {"filesytem": {"/a": "read"}, "network": {"enabled": False}}}}
    warnings = load_config([Layer(name="user", values=table)]).warnings
    assert warnings == (
        "user, permissions.p.filesytem: unknown key; did you mean `filesystem`?",
    )  # fmt: skip


MODE, PROFILE = {"sandbox_mode": "read-only"}, {"default_permissions": "p"}


@pytest.mark.parametrize(
    ("tables", "chosen"),
    [
        ([], None),
        ([MODE], None),
        ([PROFILE], "p"),
        ([MODE, PROFILE], "p"),
        ([PROFILE, MODE], None),
        ([MODE | PROFILE], "p"),
        ([PROFILE, {}, MODE, {"permissions": {"p": {}}}], None),
    ],
)
def test_the_highest_layer_that_names_one_decides(tables, chosen):
    layers = [Layer(name=str(index), values=table) for index, table in enumerate(tables)]
    assert chosen_profile(layers) == chosen


def test_a_layer_that_does_not_count_decides_nothing():
    layers = [Layer(name="user", values=PROFILE), Layer(name="project", values=MODE, ignored="no")]
    assert chosen_profile(layers) == "p"


def test_profiles_without_a_choice_are_an_error():
    layers = [Layer(name="user", values={"permissions": {"p": {}}})]
    with pytest.raises(UsageError, match="does not set `default_permissions`"):
        chosen_profile(layers)
