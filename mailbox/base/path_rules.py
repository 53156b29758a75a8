"""Path access rules: lookup, intersection, deny globs. Pure: works on the text of paths alone.

The intersection of two profiles allows nothing that either of them forbids. Paths must be absolute
and canonical: the caller resolves links first.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from ..protocol.values.limits import (
    Access,
    DangerFullAccess,
    PathRule,
    ProfilePolicy,
    ReadOnly,
    SandboxPolicy,
)

ACCESS_RANK: dict[Access, int] = {"deny": 0, "read": 1, "write": 2}
_SHORT_GIT = re.compile(r"git~\d+", re.ASCII | re.IGNORECASE)  # of `.git`, on Windows
_ESCAPED = re.compile(r"\[([*?[])\]")
# A sandbox replaces these trees: they hold sockets and other users' files. A rule must name what
# commands may see of the machine's own.
PRIVATE_TREES = ("/tmp", "/run", "/var/run")
CACHES_FOLDER = ".caches"  # in a private /tmp: what package managers can fetch again
OWN_TREES = ("/dev", "/proc")  # a sandbox has its own: no rule about these counts
KERNEL_TREES = (*OWN_TREES, "/sys")  # the kernel's: no command changes them, no socket lies there
# Commands may neither change nor create these. While a command runs, each missing one is an empty
# folder with a marker mtime.
PROTECTED_NAMES = (".git", ".swarm", ".agents", ".codex", ".claude", ".aws")
PLACEHOLDER_MTIME_NS = 1_000_000_000 + 0x53574D  # 1970-01-01T00:00:01 and a fraction: no real time


def is_within(path: str, root: str) -> bool:
    """True if `path` is `root` or lies below it."""
    return root in ("/", path) or path.startswith(f"{root}/")


def is_protected_name(name: str, names: tuple[str, ...] = PROTECTED_NAMES) -> bool:
    """True for every spelling that a case-insensitive file system could treat as one of `names`.

    That covers letters that fold to the same, invisible characters, trailing dots and spaces, and
    what NTFS takes for a stream of the same file (`.git::$INDEX_ALLOCATION`).
    """
    if name in names:
        return True
    text = unicodedata.normalize("NFKC", name).casefold()
    seen = "".join(sign for sign in text if unicodedata.category(sign) not in ("Cf", "Cc"))
    return seen.partition(":")[0].rstrip(". ") in names


def is_git_name(name: str) -> bool:
    """True for every spelling of `.git` that git itself refuses in a tree, with its short names."""
    return is_protected_name(name, (".git",)) or _SHORT_GIT.fullmatch(name.rstrip(". ")) is not None


def looks_like_placeholder(name: str, mtime_ns: int) -> bool:
    """True for a placeholder folder of a sandbox; a write in it changes its mtime."""
    return mtime_ns == PLACEHOLDER_MTIME_NS and name in PROTECTED_NAMES


def deepest_rule(rules: Iterable[PathRule], path: str) -> PathRule | None:
    """The rule that decides about a path; None if no rule covers it."""
    best: PathRule | None = None
    for rule in rules:
        if is_within(path, rule.path) and (best is None or len(rule.path) > len(best.path)):
            best = rule
    if best is None or any(
        is_within(path, tree) and (best.path == tree or not is_within(best.path, tree))
        for tree in PRIVATE_TREES
    ):
        return None
    return best


def access_at(rules: Iterable[PathRule], path: str) -> Access:
    """The access that the rules give to a path; "deny" if no rule covers it."""
    rule = deepest_rule(rules, path)
    return "deny" if rule is None else rule.access


def make_rules(entries: Iterable[tuple[str, Access]]) -> tuple[PathRule, ...]:
    """One rule per path, shallow paths first. On one path deny wins over write, write over read."""
    order: dict[Access, int] = {"read": 0, "write": 1, "deny": 2}
    found: dict[str, Access] = {}
    for path, access in entries:
        if path not in found or order[access] > order[found[path]]:
            found[path] = access
    return tuple(PathRule(path=path, access=found[path]) for path in sorted(found, key=_depth))


def _depth(path: str) -> tuple[int, str]:
    return (0 if path == "/" else path.count("/"), path)


def intersect_rules(one: Sequence[PathRule], other: Sequence[PathRule]) -> tuple[PathRule, ...]:
    """The lesser access of the two at every path.

    Exact: the access of each side changes only at its rules and where a private tree begins, and
    each of these paths gets a rule.
    """
    places = {rule.path for rule in (*one, *other)}
    return make_rules(
        (place, min(access_at(one, place), access_at(other, place), key=ACCESS_RANK.__getitem__))
        for place in places
    )


def without_writes(rules: Iterable[PathRule]) -> tuple[PathRule, ...]:
    """The same rules with "write" lowered to "read"."""
    return tuple(
        PathRule(path=rule.path, access="read") if rule.access == "write" else rule
        for rule in rules
    )


def read_only_profile(policy: ProfilePolicy) -> ProfilePolicy:
    """The profile without write access and without network."""
    rules = without_writes(policy.rules)
    return msgspec.structs.replace(policy, rules=rules, network_access=False)


def is_writable(policy: SandboxPolicy) -> bool:
    """True if commands may write anything beside their own /tmp."""
    if isinstance(policy, ProfilePolicy):
        return any(rule.access == "write" for rule in policy.rules)
    return not isinstance(policy, ReadOnly)


def without_writing(policy: SandboxPolicy) -> SandboxPolicy:
    """The policy with nothing to write; reading and network stay as they are."""
    match policy:
        case ProfilePolicy():
            return msgspec.structs.replace(policy, rules=without_writes(policy.rules))
        case DangerFullAccess():
            return ReadOnly(network_access=True)
        case _:
            return ReadOnly(network_access=policy.network_access)


def intersect_profiles(one: ProfilePolicy, other: ProfilePolicy) -> ProfilePolicy:
    """The widest profile that allows nothing that either of the two forbids."""
    depths = (one.glob_depth, other.glob_depth)
    searched = [d for d, of in zip(depths, (one, other), strict=True) if of.deny_globs]
    return ProfilePolicy(
        name=other.name if one.name.startswith(":") else one.name,
        rules=intersect_rules(one.rules, other.rules),
        deny_globs=tuple(dict.fromkeys((*one.deny_globs, *other.deny_globs))),
        glob_depth=None if None in searched else max((d for d in searched if d), default=None),
        tmp=min(one.tmp, other.tmp, key=ACCESS_RANK.__getitem__),
        workspace=one.workspace,
        network_access=one.network_access and other.network_access,
    )


def may_read(policy: ProfilePolicy, path: str) -> bool:
    """True if commands under this profile can read this canonical path of the machine."""
    return access_at(policy.rules, path) != "deny" and not matches_deny_glob(policy, path)


def may_write(policy: ProfilePolicy, path: str) -> bool:
    """True if commands under this profile can write this canonical path of the machine."""
    return access_at(policy.rules, path) == "write" and not matches_deny_glob(policy, path)


def denies_reading(policy: ProfilePolicy) -> bool:
    """True if there is any path that commands cannot read."""
    return (
        access_at(policy.rules, "/") == "deny"
        or any(rule.access == "deny" for rule in policy.rules)
        or bool(policy.deny_globs)
    )


def is_explicitly_denied(policy: ProfilePolicy, path: str) -> bool:
    """True if a rule or glob denies the path, so no grant may open it; False without a rule."""
    rule = deepest_rule(policy.rules, path)
    return (rule is not None and rule.access == "deny") or matches_deny_glob(policy, path)


def matches_deny_glob(policy: ProfilePolicy, path: str) -> bool:
    """True if a deny glob matches the path or one of its parents."""
    if not policy.deny_globs:
        return False
    steps = path.split("/")
    heads = ["/".join(steps[:count]) for count in range(2, len(steps) + 1)]
    return any(compile_glob(glob).fullmatch(head) for glob in policy.deny_globs for head in heads)


def glob_base(glob: str) -> str:
    """The folder above the first segment with a glob sign: `/a/b` for `/a/b/**/*.env`.

    An escaped sign (`[*]`) does not count.
    """
    steps: list[str] = []
    for step in glob.split("/"):
        if has_glob_signs(_ESCAPED.sub("", step)):
            break
        steps.append(_ESCAPED.sub(r"\1", step))
    return "/".join(steps) or "/"


def has_glob_signs(text: str) -> bool:
    """True if the text holds `*`, `?` or `[`."""
    return any(sign in text for sign in "*?[")


@lru_cache(maxsize=256)
def compile_glob(glob: str) -> re.Pattern[str]:
    """Compile a glob: `*` and `?` match within a segment, `**` any number of segments, `[…]` one
    character of a set. Case-sensitive.
    """
    parts: list[list[str]] = [[]]  # steps between one `**` and the next
    for step in glob.split("/"):
        if step == "**":
            parts.append([])
        else:
            parts[-1].append(_compile_glob_step(step))
    first, *others = ("/".join(part) for part in parts)
    slash = "/" if others and parts[0] else ""
    middle = "".join(f"(?>(?:[^/]+/)*?{part}/)" for part in others[:-1] if part)
    end = (f"(?:[^/]+/)*{others[-1]}" if parts[-1] else ".*") if others else ""
    return re.compile(first + slash + middle + end, re.DOTALL)


def _compile_glob_step(step: str) -> str:
    """Each `*` but the last takes the nearest place where what follows it matches, and keeps it:
    trying others would find nothing more, and could take for ever.
    """
    pieces = [""]  # between one `*` and the next
    at = 0
    while at < len(step):
        sign, end = step[at], step.find("]", at + 2) if step[at] == "[" else -1
        if end > 0:
            inside = step[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            pieces[-1] += "[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]"
            at = end
        elif sign == "*":
            pieces.append("")
        else:
            pieces[-1] += "[^/]" if sign == "?" else re.escape(sign)
        at += 1
    first, *others = pieces
    if not others:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1] if piece)
    return f"{first}{middle}[^/]*{others[-1]}"
