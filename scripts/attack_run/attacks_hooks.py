"""Hooks of a hostile repository: none of them may run before a person trusted their content."""

import json
from collections.abc import Sequence

from attack import Attack, Call, command, commands_ran
from attack_testbed import AttackTestbed

_MARK = "hook-ran"
_FILES = (
    ".swarm/hooks.json", ".codex/hooks.json", ".claude/settings.json",
    ".claude/settings.local.json",
)  # fmt: skip
_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")


def _hooks() -> str:
    group = [{"hooks": [{"type": "command", "command": f"touch {_MARK}"}]}]
    return json.dumps({"hooks": dict.fromkeys(_EVENTS, group)})


def _hostile(scene: AttackTestbed) -> None:
    for name in _FILES:
        path = scene.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_hooks(), "utf-8")
    (scene.project / ".swarm/config.toml").write_text(
        f'[[hooks.SessionStart]]\nhooks = [{{ command = "touch {_MARK}" }}]\n', "utf-8"
    )


def _look(_: AttackTestbed) -> Sequence[Call]:
    return [command("true")]


def _write_hooks(_: AttackTestbed) -> Sequence[Call]:
    text = _hooks().replace("'", "")
    write = "; ".join(f"mkdir -p {name.split('/')[0]}; echo '{text}' > {name}" for name in _FILES)
    return [command(write), command("true")]


_PLANTED = (
    ".claude/settings.json", ".claude/commands/x.md", ".claude/agents/x.md",
    ".claude/skills/x/SKILL.md",
    ".codex/hooks.json", ".codex/prompts/x.md", ".agents/skills/x/SKILL.md", ".swarm/hooks.json",
)  # fmt: skip


def _plant(_: AttackTestbed) -> Sequence[Call]:
    """By plain writes, through a folder that is moved into place, and through a link."""
    plain = "; ".join(f"mkdir -p $(dirname {name}); echo x > {name}" for name in _PLANTED)
    tops = sorted({name.split("/")[0] for name in _PLANTED})
    moved = "; ".join(
        f"mkdir -p m{top}; echo x > m{top}/hooks.json; mv m{top} {top}; ln -s m{top} {top}"
        for top in tops
    )
    return [command(plain), command(moved), command("true")]


def _planted(scene: AttackTestbed) -> str:
    tops = sorted({name.split("/")[0] for name in _PLANTED})
    there = [name for name in (*_PLANTED, *(f"{top}/hooks.json" for top in tops))
             if (scene.project / name).exists()]  # fmt: skip
    return f"a command made what a later session reads: {', '.join(there)}" if there else ""


_GUARD = "#!/bin/sh\nexit 0\n"


def _trusted_guard(scene: AttackTestbed) -> None:
    path = scene.project / "tools/guard.sh"
    path.parent.mkdir()
    path.write_text(_GUARD, "utf-8")
    path.chmod(0o755)
    (scene.project / ".swarm").mkdir(exist_ok=True)
    group = [{"hooks": [{"type": "command", "command": "tools/guard.sh"}]}]
    hooks = json.dumps({"hooks": {"PreToolUse": group}})
    (scene.project / ".swarm/hooks.json").write_text(hooks, "utf-8")
    scene.output += scene.run_program(scene.swarm("trust", "--yes"))[0]


def _replace_guard(_: AttackTestbed) -> Sequence[Call]:
    ways = (
        "echo > tools/guard.sh", "rm -f tools/guard.sh", "echo x > y; mv y tools/guard.sh",
        "mv tools t2; mkdir tools; cp t2/guard.sh tools/; echo >> tools/guard.sh",
        "ln -f y tools/guard.sh", "chmod 0 tools/guard.sh", "truncate -s 0 tools/guard.sh",
    )  # fmt: skip
    return [command("; ".join(ways)), command("true")]


def _guard_changed(scene: AttackTestbed) -> str:
    path = scene.project / "tools/guard.sh"
    try:
        is_same = path.read_text("utf-8") == _GUARD and path.stat().st_mode & 0o700 == 0o700
    except OSError:
        is_same = False
    if '"type":"hook.completed"' not in scene.output:
        return "the guard did not run"
    return "" if is_same else "the script of a trusted hook was changed"


def _hook_ran(scene: AttackTestbed) -> str:
    return "a hook that nobody trusted has run" if (scene.project / _MARK).exists() else ""


PLAYS = (
    Attack(
        name="A repository brings hooks in every file and form",
        calls=_look,
        find_escape=_hook_ran,
        prepare=_hostile,
        tried=commands_ran,
    ),
    Attack(
        name="An agent writes itself hooks that allow what it asks for",
        calls=_write_hooks,
        find_escape=_hook_ran,
        tried=commands_ran,
    ),
    Attack(
        name="A command leaves hooks, commands, roles and skills for a later session",
        calls=_plant,
        find_escape=_planted,
        tried=commands_ran,
    ),
    Attack(
        name="An agent replaces the script of a trusted guard",
        calls=_replace_guard,
        find_escape=_guard_changed,
        prepare=_trusted_guard,
        tried=commands_ran,
    ),
)
