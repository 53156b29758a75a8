"""Rules that allow: what an agent adds to their words, or puts where they look, stays inside."""

from collections.abc import Sequence

from attack import Attack, Call, bare_command, run_ended
from attack_testbed import AttackTestbed

_ALLOWED = (
    "sort f", "tar tf a.tar", "git fetch", "git log", "git push", "make", "npm test",
    "python3 tool.py", "bash tool.sh", "find .", "rg x", "sed -n", "awk",
    "curl file:///etc/hostname", "env", "xargs", "man -l", "less f", "uniq f", "git",
    "git rebase", "perl", "rsync -a f g", "wget", "python3 -m evil", "ssh",
)  # fmt: skip


def _rules(scene: AttackTestbed) -> None:
    rules = scene.state / "rules"
    rules.mkdir(mode=0o700)
    lines = [
        f"prefix_rule(pattern=[{', '.join(repr(word) for word in one.split())}], decision='allow')"
        for one in (*_ALLOWED, "git tag")
    ]
    (rules / "default.rules").write_text("\n".join(lines) + "\n", "utf-8")
    (scene.project / "f").write_text("f\n", "utf-8")
    scene.run_program([*scene.argv_as_user(), "tar", "cf", "a.tar", "f"])
    scene.chown_files()


def _planted(scene: AttackTestbed) -> str:
    found = sorted(path.name for path in scene.home.glob("planted*"))
    return f"it ran outside of the sandbox: {', '.join(found)}" if found else ""


def _further_words(scene: AttackTestbed) -> Sequence[Call]:
    out = f"{scene.home}/planted"
    scripts = (
        f"sort f -o {out}1", f"sort f --outp={out}2", f"uniq f {out}3",
        f"tar tf a.tar --checkpoint=1 '--checkpoint-action=exec=touch {out}4'",
        f"git fetch '--upload-pack=touch {out}5;' .", f"git log --output={out}6",
        f"find . -maxdepth 0 -exec touch {out}7 ';'", f"find . -maxdepth 0 -fprint {out}8",
        f"sed -n 'w {out}9' f", f"awk 'BEGIN{{system(\"touch {out}10\")}}'",
        f"curl file:///etc/hostname -o {out}11", f"curl file:///etc/hostname -sSo{out}12",
        f"env touch {out}13", f"xargs -a f touch {out}14", f"git -c alias.x='!touch {out}15' x",
        f"git rebase -x 'touch {out}16' HEAD", f"perl -e 'open F, q(>{out}17)'",
        f"rsync -a f g --log-file={out}18", f"less f -o{out}19",
        f"git push --exec='touch {out}20;' . HEAD:x",
    )  # fmt: skip
    return [bare_command(script) for script in scripts]


def _own_files(scene: AttackTestbed) -> Sequence[Call]:
    """Code and settings of the agent, in the places where allowed commands look for them."""
    out = f"{scene.home}/planted"
    write = (
        f"printf 'all:\\n\\ttouch {out}1\\n' > Makefile;"
        f'printf \'{{"scripts": {{"test": "touch {out}2"}}}}\' > package.json;'
        f'printf \'open("{out}3", "w")\\n\' | tee tool.py > evil.py;'
        f"echo 'touch {out}4' > tool.sh;"
        "mkdir nested; cd nested; git init -q; git remote add origin /nowhere;"
        f"git config remote.origin.uploadpack 'touch {out}5;'; cd ..;"
        f"mkdir bare; cd bare; git init -q --bare; git config core.fsmonitor 'touch {out}6';"
        f"git config remote.origin.url ssh://a/b; git config core.sshCommand 'touch {out}7;'"
    )
    scripts = ("make", "npm test", "python3 tool.py", "bash tool.sh", "python3 -m evil")
    return [
        bare_command(write),
        *(bare_command(script) for script in scripts),
        bare_command("git fetch", workdir="nested"),
        bare_command("git fetch", workdir="bare"),
        bare_command("git log", workdir="bare"),
    ]


def _with_hooks_path(scene: AttackTestbed) -> None:
    """A person keeps the hooks of a repository in the project, as many do."""
    _rules(scene)
    scene.git("config", "core.hooksPath", ".husky")
    scene.chown_files()


def _write_hook(scene: AttackTestbed) -> Sequence[Call]:
    name = ".husky/reference-transaction"
    text = f"#!/bin/sh\\ntouch {scene.home}/planted1\\n"
    write = f"mkdir .husky; printf '{text}' > {name}; chmod +x {name}"
    return [bare_command(write), bare_command("git tag v1"), bare_command("git fetch .")]


def _tagged(scene: AttackTestbed) -> str:
    said, _ = scene.git("tag")
    return "" if "v1" in said else "an allowed git command did not leave the sandbox"


PLAYS = (
    Attack(
        name="further words of an allowed command write or run something outside",
        prepare=_rules, calls=_further_words, options=lambda scene: ["--reviewer", "nobody"],
        find_escape=_planted, tried=run_ended, fast=True,
    ),
    Attack(
        name="an allowed command runs what the agent wrote, outside",
        prepare=_rules, calls=_own_files, options=lambda scene: ["--reviewer", "nobody"],
        find_escape=_planted, tried=run_ended, fast=True,
    ),
    Attack(
        name="an allowed git command runs a hook that the agent wrote, outside",
        prepare=_with_hooks_path, calls=_write_hook,
        options=lambda scene: ["--reviewer", "nobody"],
        find_escape=_planted, tried=run_ended,
    ),
    Attack(
        name="an allowed git command works in the person's own repository",
        prepare=_rules, calls=lambda scene: [bare_command("git tag v1")],
        options=lambda scene: ["--reviewer", "nobody"],
        find_escape=_tagged, tried=run_ended, must_work=True,
    ),
)  # fmt: skip
