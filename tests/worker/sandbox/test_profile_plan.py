"""What a profile says is what both stacks are told: bubblewrap exactly, Landlock never more."""

import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm.mailbox.base.path_rules import (
    is_within,
    make_rules,
    matches_deny_glob,
    may_read,
    may_write,
)
from swarm.mailbox.protocol.approvals import ExtraPermissions
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits, NetworkPolicy, ProfilePolicy
from swarm.worker.agent.context.context_blocks import permissions_text
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.exec.command_plan import FolderHidden, check_workdir
from swarm.worker.policy.approval_offers import decide_retry
from swarm.worker.policy.command_decision import (
    MUST_STAY_SANDBOXED,
    Ask,
    Refuse,
    Run,
    decide_command,
)
from swarm.worker.policy.command_facts import EscalationRequest, RuleMatch, gather_facts
from swarm.worker.sandbox.bwrap import bwrap_arguments
from swarm.worker.sandbox.landlock import READ_FILE, WRITE
from swarm.worker.sandbox.landlock_rules import landlock_rules
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, SandboxUnavailable, plan_sandbox
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.interface.tool_context import ToolContext
from swarm.worker.tools.list_dir import ListDirArguments, list_directory

FOLDERS = ("", "a", "a/b", "a/b/c", "a/d", "e", "e/f", "e/f/g")
FILES = tuple(f"{folder}/{name}".strip("/") for folder in FOLDERS for name in ("x", "x.env"))


@pytest.fixture(scope="module")
def tree():
    """Folders and files outside of /tmp, of which a sandbox shows only what is named."""
    home = Path(tempfile.mkdtemp(prefix="swarm-profile-", dir="/var/tmp"))
    for name in FOLDERS:
        (home / name).mkdir(exist_ok=True)
    for name in FILES:
        (home / name).write_text(name)
    yield home
    shutil.rmtree(home)


def policy_of(tree, entries, globs=(), *, root=None, cwd="read"):
    rules = [(str(tree / name) if name else str(tree), access) for name, access in entries]
    rules += [("/", root)] if root else []
    made = make_rules([*rules, *([(str(tree), cwd)] if cwd else [])])
    return ProfilePolicy(
        name="p", rules=made, deny_globs=tuple(f"{tree}/{glob}" for glob in globs), tmp="write"
    )


def plan(tree, policy, stack="bwrap", **more):
    return plan_sandbox(policy, cwd=str(tree), tmp_dir=None, stack=stack, **more)


def mounted(words):
    """(place, what may be done there) in the order of mounting: an own model of bubblewrap."""
    found, index = [], 0
    while index < len(words):
        match words[index : index + 3]:
            case ["--bind", _, place]:
                found.append((place, "write"))
            case ["--ro-bind", "/dev/null", place]:
                found.append((place, "deny"))
            case ["--ro-bind", source, place]:
                assert source == place
                found.append((place, "read"))
            case ["--tmpfs", place, *_]:
                found.append((place, "deny"))
        index += 1
    return found


def told_to_bwrap(words, path):
    access = None
    for place, what in mounted(list(words)):
        if is_within(path, place):
            access = what
    return access


ENTRIES = st.lists(
    st.tuples(st.sampled_from((*FOLDERS[1:], *FILES)), st.sampled_from(["read", "write", "deny"])),
    max_size=6,
)
GLOBS = st.lists(st.sampled_from(["**/*.env", "a/*.env", "*/b", "e/**/g"]), max_size=2)
PLAIN = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@PLAIN
@given(ENTRIES, GLOBS, st.sampled_from([None, "read", "write"]), st.sampled_from(["read", "write"]))
def test_bubblewrap_is_told_exactly_what_the_profile_says(tree, entries, globs, root, cwd):
    policy = policy_of(tree, entries, globs, root=root, cwd=cwd)
    words = bwrap_arguments(plan(tree, policy), bwrap="/usr/bin/bwrap", filtered=True)
    for name in (*FOLDERS, *FILES):
        path = str(tree / name) if name else str(tree)
        wanted = (
            "write" if may_write(policy, path) else "read" if may_read(policy, path) else "deny"
        )
        assert told_to_bwrap(words, path) == wanted, path


@PLAIN
@given(ENTRIES, GLOBS, st.sampled_from([None, "read", "write"]), st.sampled_from(["read", "write"]))
def test_landlock_is_granted_nothing_that_the_profile_denies(tree, entries, globs, root, cwd):
    policy = policy_of(tree, entries, globs, root=root, cwd=cwd)
    grants = landlock_rules(plan(tree, policy, "landlock")).grants
    for name in FILES:
        path = str(tree / name)
        given_bits = 0
        for grant in grants:
            given_bits |= grant.access if is_within(path, grant.path) else 0
        assert not given_bits & READ_FILE or may_read(policy, path), path
        assert given_bits & WRITE != WRITE or may_write(policy, path), path
        if not globs and all(access != "deny" for _, access in entries):
            assert given_bits & READ_FILE, path


def test_nothing_is_shown_that_is_not_named(tree):
    words = bwrap_arguments(plan(tree, policy_of(tree, [])), bwrap="/usr/bin/bwrap", filtered=True)
    assert told_to_bwrap(words, "/etc/passwd") == "deny"
    assert ("--ro-bind", "/", "/") not in zip(words, words[1:], words[2:], strict=False)
    assert words[words.index("--seccomp") - 2 : words.index("--seccomp")] == ("--remount-ro", "/")


def test_a_grant_opens_what_no_rule_speaks_of_and_nothing_that_is_denied(tree):
    policy = policy_of(tree, [("a", "read"), ("e", "deny")], cwd="read")
    inner = msgspec.structs.replace(policy, rules=policy.rules[1:])  # only a, and e
    made = plan_sandbox(
        inner, cwd=str(tree / "a"), tmp_dir=None, stack="bwrap",
        extra_roots=(str(tree / "e/f"), str(tree / "a/b")), extra_readable=(str(tree / "x"),),
    )  # fmt: skip
    assert made.writable == (str(tree / "a/b"),)
    assert str(tree / "x") in made.readable
    assert str(tree / "e") in made.denied


def test_a_granted_folder_keeps_what_the_profile_names_inside_of_it(tree):
    policy = policy_of(tree, [("a/b", "read")], cwd="read")
    extra = (str(tree / "a"),)
    for stack in ("bwrap", "landlock"):
        made = plan(tree, policy, stack, extra_roots=extra)
        assert made.writable == extra
        assert made.protected == (str(tree / "a/b"),)


def test_a_folder_on_the_way_to_something_closed_cannot_be_renamed(tree):
    policy = policy_of(tree, [("a/b/c", "deny"), ("e/f", "read")], cwd="write")
    made = plan(tree, policy)
    assert made.pinned == (str(tree / "a"), str(tree / "e"), str(tree / "a/b"))
    deeper = policy_of(tree, [("e", "read"), ("e/f/g", "deny")], cwd="write")
    assert plan(tree, deeper).pinned == ()  # what is read-only needs no pin, which would open it


def test_the_search_stops_at_its_depth(tree):
    deep = policy_of(tree, [], ["**/*.env"], cwd="write")
    for depth, count in ((1, 1), (2, 3), (None, len(FOLDERS))):
        made = plan(tree, msgspec.structs.replace(deep, glob_depth=depth))
        assert len(made.denied_files) == count


def test_a_proxy_still_needs_bubblewrap(tree):
    with pytest.raises(SandboxUnavailable, match="needs bubblewrap"):
        plan(tree, policy_of(tree, []), "landlock", proxied=NetworkPolicy())


@pytest.mark.parametrize(
    ("workdir", "fits"), [("", True), ("a", True), ("e", False), ("e/f", True), ("/etc", False)]
)
def test_a_command_starts_only_where_it_may_read(tree, workdir, fits):
    made = plan(tree, policy_of(tree, [("e", "deny"), ("e/f", "read")]))
    if fits:
        check_workdir(made, str(tree / workdir))
    else:
        with pytest.raises(FolderHidden):
            check_workdir(made, str(tree / workdir))


# --- what stays inside ---------------------------------------------------------------------------


def facts(policy, escalation=None, rules=()):
    return gather_facts(
        ("/usr/bin/make", "x"),
        Limits(sandbox=policy),
        escalation,
        match_rules=lambda _: tuple(rules),
    )


ALLOWED = (RuleMatch(decision="allow", matched_prefix=("make",)),)


def test_where_reading_is_denied_nothing_leaves_the_sandbox(tree):
    policy = policy_of(tree, [], root="read", globs=["*.env"])
    assert decide_command(facts(policy, rules=ALLOWED)) == Run()
    escalated = EscalationRequest(permissions="require_escalated", justification="please")
    assert decide_command(facts(policy, escalated)) == Refuse(reason=MUST_STAY_SANDBOXED)
    asked = facts(policy)
    untrusted = msgspec.structs.replace(asked, approval="untrusted")
    assert decide_retry(untrusted, Run(), Run()) is None


def test_where_all_may_be_read_rules_and_approvals_work_as_ever(tree):
    policy = policy_of(tree, [], root="read", cwd="write")
    assert decide_command(facts(policy, rules=ALLOWED)) == Run(sandboxed=False)
    escalated = EscalationRequest(permissions="require_escalated", justification="please")
    verdict = decide_command(facts(policy, escalated))
    assert isinstance(verdict, Ask)
    assert not verdict.then.sandboxed


# --- tools in the agent's own process ------------------------------------------------------------


class Commands:
    def __init__(self, tree):
        self._tree = tree

    def plan(self, policy, cwd, extra=None):
        assert cwd == str(self._tree)
        return plan(self._tree, policy)


def site_of(tree, policy, *, granted=None, locked=False):
    spec = msgspec.structs.replace(
        FAKE_AGENT_SPEC, cwd=str(tree), limits=Limits(sandbox=policy),
        granted=granted or ExtraPermissions(), role=RoleBrief(locked=locked),
    )  # fmt: skip
    return ToolContext(CurrentSpec(spec), Commands(tree))


@PLAIN
@given(ENTRIES, GLOBS, st.sampled_from(["read", "write"]))
def test_tools_are_held_to_the_same_rules(tree, entries, globs, cwd):
    policy = policy_of(tree, entries, globs, cwd=cwd)
    site = site_of(tree, policy)
    made = site.write_plan()
    assert isinstance(made, SandboxPlan)
    for name in FILES:
        path = tree / name
        assert site.may_read(path) == may_read(policy, str(path))
        assert site.may_write(path, made) == may_write(policy, str(path)), name


def test_a_listing_leaves_out_what_is_denied(tree):
    site = site_of(tree, policy_of(tree, [("a/b", "deny")], ["**/*.env"]))
    listed = list_directory(
        ListDirArguments(dir_path=str(tree), depth=4, limit=100), may_read=site.may_read
    )
    assert "d/" in listed
    assert "b/" not in listed
    assert ".env" not in listed


def test_what_was_granted_can_be_read_by_tools_unless_it_is_denied_or_the_role_locked(tree):
    policy = ProfilePolicy(
        name="p", rules=make_rules([(str(tree / "a"), "read"), ("/srv", "deny")])
    )
    granted = ExtraPermissions(read=(str(tree / "e"), "/srv/x"))
    site = site_of(tree, policy, granted=granted)
    assert site.may_read(tree / "e/x")
    assert not site.may_read(tree / "x")
    assert not site.may_read(Path("/srv/x"))
    assert not site_of(tree, policy, granted=granted, locked=True).may_read(tree / "e/x")


def test_a_link_to_something_denied_is_denied(tree, tmp_path):
    site = site_of(tree, policy_of(tree, [("a", "deny")]))
    (tree / "link").symlink_to("a/x")
    try:
        assert not site.may_read(tree / "link")
    finally:
        (tree / "link").unlink()


def test_a_model_is_told_what_is_open_and_what_is_closed(tree):
    policy = policy_of(tree, [("a", "write"), ("e", "deny")], ["**/*.env"])
    text = permissions_text(Limits(sandbox=policy), cwd=str(tree))
    assert f"May be written: `{tree}/a`." in text
    assert f"May be read: `{tree}`." in text
    assert f"Closed: `{tree}/e`, `{tree}/**/*.env`." in text
    assert "`require_escalated` is refused" in text
    assert matches_deny_glob(policy, f"{tree}/q/z.env")
