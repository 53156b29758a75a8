"""Programs that run outside of the sandbox, and that an agent exchanges before they are started."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from attack import Attack, Call, bare_command, command, run_ended
from attack_testbed import AttackTestbed

_ESCAPED = "escaped"
_PATH = {"PATH": "{folder}/project/.venv/bin:{folder}/home/bin:/usr/bin:/bin"}
_OPTIONS = ("--reviewer", "nobody")
_SYSTEM_PYTHON = "/usr/bin/python3"
_SERVER = r"""
import json, sys
SCHEMA = {"type": "object"}
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, given = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        send(id=message["id"], result={
            "protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"}})
    elif method == "tools/list":
        send(id=message["id"], result={"tools": [{"name": "act", "inputSchema": SCHEMA}]})
    elif method == "tools/call":
        send(id=message["id"], result={"content": [{"type": "text", "text": "it-" + "served"}]})
        break
    else:
        send(id=message["id"], error={"code": -32601, "message": "no"})
"""


_TRUE = {"agent": "/root", "calls": [{"name": "exec_command", "arguments": {"cmd": "true"}}]}


def _mark(scene: AttackTestbed) -> Path:
    return scene.folder / _ESCAPED


def _escaped(scene: AttackTestbed) -> str:
    return "a program of the agent ran outside of the sandbox" if _mark(scene).exists() else ""


def _shell(scene: AttackTestbed, then: str = "") -> str:
    """A program of the agent's, as text."""
    return f"#!/bin/sh\ntouch {_mark(scene)}\n{then}\n"


def _plant(scene: AttackTestbed, name: str, text: str) -> Call:
    """A command that writes a program below the project."""
    folder = shlex.quote(str(Path(name).parent))
    quoted = shlex.quote(name)
    write = f"mkdir -p {folder}; printf %s {shlex.quote(text)} > {quoted}; chmod 755 {quoted}"
    return command(write)


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def _configure(scene: AttackTestbed, text: str) -> None:
    (scene.state / "config.toml").write_text(text, "utf-8")


def _allow(scene: AttackTestbed, *commands: str) -> None:
    """Rules that say these words."""
    rules = scene.state / "rules"
    rules.mkdir(mode=0o700)
    lines = "".join(
        f'prefix_rule(pattern={json.dumps(one.split())}, decision="allow")\n' for one in commands
    )
    (rules / "default.rules").write_text(lines, "utf-8")


def _rules(scene: AttackTestbed) -> None:
    _allow(scene, "git", "tool", "sh", "linked", "env", "nice")
    (scene.project / ".venv/bin").mkdir(parents=True)
    _program(scene.home / "bin/tool", "#!/usr/bin/env toolrunner\n")
    _program(scene.home / "bin/toolrunner", "#!/bin/sh\necho tool\n")
    _program(scene.project / "linked", "#!/bin/sh\necho linked\n")
    (scene.home / "bin/linked").symlink_to(scene.project / "linked")


def _exchange(scene: AttackTestbed) -> Sequence[Call]:
    return [
        _plant(scene, ".venv/bin/git", _shell(scene, 'exec /usr/bin/git "$@"')),
        bare_command("git status"),
        bare_command("git status && git log -1"),
        bare_command("git status", sandbox_permissions="require_escalated", justification="?"),
        _plant(scene, ".venv/bin/toolrunner", _shell(scene)),
        bare_command("tool"),
        _plant(scene, "linked", _shell(scene)),
        bare_command("linked"),
        _plant(scene, ".venv/bin/sh", _shell(scene)),
        bare_command("sh -c true"),
        bare_command("git --version", shell="sh"),
        bare_command("env git status"),
        bare_command("nice git status"),
    ]


def _held_rules(scene: AttackTestbed) -> None:
    # Of node and git a rule must say all words: they could write, or run what others wrote.
    outside = scene.folder
    _allow(scene, "touch", f"node {outside}/by-node", f"git init -q {outside}/by-git")
    (scene.project / ".venv/bin").mkdir(parents=True)
    _program(scene.home / ".nvm/versions/node/v1/bin/node", '#!/bin/sh\necho > "$1"\n')


def _use_held(scene: AttackTestbed) -> Sequence[Call]:
    outside = scene.folder
    return [
        bare_command(f"touch {outside}/by-touch"),
        bare_command(f"node {outside}/by-node"),
        bare_command(f"git init -q {outside}/by-git"),
    ]


def _not_outside(scene: AttackTestbed) -> str:
    missing = [
        name for name in ("touch", "node", "git") if not (scene.folder / f"by-{name}").exists()
    ]
    return f"did not run outside of the sandbox: {', '.join(missing)}" if missing else ""


def _dotfiles(scene: AttackTestbed) -> None:
    """The project holds what the person's start-up files lead to."""
    (scene.project / "profile").write_text("true\n")
    for name in (".profile", ".bash_profile", ".zshenv", ".zprofile"):
        (scene.home / name).symlink_to(scene.project / "profile")


def _write_dotfiles(scene: AttackTestbed) -> Sequence[Call]:
    """By a patch; a login shell may have been asked before."""
    body = f"*** Update File: profile\n@@\n-true\n+touch {_mark(scene)}\n"
    patch = f"*** Begin Patch\n{body}*** End Patch"
    return [{"name": "apply_patch", "arguments": {"input": patch}}, command("true")]


def _next_run(scene: AttackTestbed) -> str:
    """The person's next run there asks a login shell before its first command."""
    words = ("run", "-p", "again", "--provider", scene.script("again", [_TRUE]))
    scene.run_program(scene.swarm(*words, "-C", str(scene.project), *_OPTIONS), deadline_s=60.0)
    return _escaped(scene)


def _notify(scene: AttackTestbed) -> None:
    _configure(scene, 'notify = ["tell"]\n')
    _program(scene.home / "bin/tell", "#!/bin/sh\ntrue\n")


def _exchange_notify(scene: AttackTestbed) -> Sequence[Call]:
    return [_plant(scene, ".venv/bin/tell", _shell(scene)), command("true")]


def _server(scene: AttackTestbed, words: Sequence[str], more: str) -> None:
    listed = json.dumps(list(words[1:]))
    _configure(
        scene,
        f'[mcp_servers.own]\ncommand = "{words[0]}"\nargs = {listed}\n{more}\n'
        'default_tools_approval_mode = "approve"\n',
    )


def _act() -> Call:
    return {"name": "mcp__own__act", "arguments": {}}


def _script_server(scene: AttackTestbed) -> None:
    _program(scene.project / "tools/server.py", _SERVER)
    _script_table(scene)


def _script_table(scene: AttackTestbed) -> None:
    _server(scene, (_SYSTEM_PYTHON, "tools/server.py"), 'sandbox = "none"')


def _rewrite(scene: AttackTestbed) -> Sequence[Call]:
    """The server ends after each call; a module beside it, and the script itself."""
    spoiled = f"open({str(_mark(scene))!r}, 'w')\n{_SERVER}"
    return [
        _act(),
        _plant(scene, "tools/json.py", f"open({str(_mark(scene))!r}, 'w')\n"),
        _act(),
        _plant(scene, "tools/server.py", spoiled),
        command("mv tools gone; cp -r gone tools"),
        _act(),
    ]


def _known_server(scene: AttackTestbed) -> None:
    """It has worked once; the run that follows knows nothing of it."""
    _script_server(scene)
    scene.run_program(scene.swarm("mcp", "call", "own", "act", "{}"), extra=_PATH)
    _configure(scene, "")


def _rewrite_between(scene: AttackTestbed) -> Sequence[Call]:
    spoiled = f"open({str(_mark(scene))!r}, 'w')\n{_SERVER}"
    return [_plant(scene, "tools/server.py", spoiled), command("touch -d @1 tools/server.py")]


def _next_server(scene: AttackTestbed) -> str:
    """The person has the server again: by hand, and in the next run."""
    _script_table(scene)
    run = ("run", "-p", "again", "--provider", scene.script("again", [_act()]))
    for words in (("mcp", "call", "own", "act", "{}"), (*run, "-C", str(scene.project), *_OPTIONS)):
        said, _ = scene.run_program(scene.swarm(*words), extra=_PATH, deadline_s=60.0)
        if _escaped(scene):
            return f"swarm {words[0]} started what an earlier run wrote, without a sandbox"
        if "swarm mcp trust own" not in said:
            return f"swarm {words[0]} did not say why it confines the server: {said[-300:]}"
    return ""


def _bare_server(scene: AttackTestbed) -> None:
    _program(scene.home / "bin/own-server", f"#!{_SYSTEM_PYTHON}\n{_SERVER}")
    _server(scene, ("own-server",), 'sandbox = "none"')


def _exchange_server(scene: AttackTestbed) -> Sequence[Call]:
    planted = f"#!{_SYSTEM_PYTHON}\nopen({str(_mark(scene))!r}, 'w')\n{_SERVER}"
    return [_act(), _plant(scene, ".venv/bin/own-server", planted), _act()]


def _by_hand(scene: AttackTestbed) -> str:
    """The person tries the server in the project, outside of a run."""
    for words in (("tools", "own"), ("call", "own", "act", "{}"), ("doctor",)):
        said, _ = scene.run_program(scene.swarm("mcp", *words), extra={"PATH": _PATH["PATH"]})
        if _escaped(scene):
            return f"swarm mcp {words[0]} started the agent's program without a sandbox"
        if "agents could exchange what it runs" not in said:
            return f"swarm mcp {words[0]} did not say why it confines the server: {said[-200:]}"
    return ""


def _folder_server(scene: AttackTestbed) -> None:
    """What decides by a file of the project what it starts gets no rights."""
    _program(scene.project / "start.sh", f"exec {_SYSTEM_PYTHON} -c {shlex.quote(_SERVER)}\n")
    more = f'writable_roots = ["{scene.folder}"]\nenv = {{ TOKEN = "the-token-of-the-server" }}'
    _server(scene, ("sh", "start.sh"), more)


def _rewrite_start(scene: AttackTestbed) -> Sequence[Call]:
    text = (
        f'[ -z "$TOKEN" ] || touch {_mark(scene)}\ntouch {_mark(scene)}\n'
        f"exec {_SYSTEM_PYTHON} -c {shlex.quote(_SERVER)}\n"
    )
    return [_act(), _plant(scene, "start.sh", text), _act()]


def _served(scene: AttackTestbed) -> str:
    return "" if "it-served" in scene.output else f"the server did not work: {scene.output[-400:]}"


def _own_installation(scene: AttackTestbed) -> None:
    """swarm in the project's own environment."""
    venv = scene.project / ".venv"
    site_folder = venv / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    site_folder.mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (venv / "bin/python").symlink_to(Path(sys.executable).resolve())
    (here,) = map(str, scene.swarm_path.parents[1].glob("lib/python3*/site-packages"))
    (site_folder / "swarm.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    start = "from swarm.supervisor.clients.cli.entry import main; main()"
    _program(venv / "bin/swarm", f"#!{venv}/bin/python -P\n{start}\n")
    scene.swarm_path = venv / "bin/swarm"


def _rewrite_installation(scene: AttackTestbed) -> Sequence[Call]:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    folder = f".venv/lib/{version}/site-packages"
    line = f"import os; open({str(_mark(scene))!r}, 'w')\n"
    return [
        _plant(scene, f"{folder}/planted.pth", line),
        _plant(scene, ".venv/bin/swarm", _shell(scene)),
        command("mv .venv .gone; cp -r .gone .venv"),
        _plant(scene, f"{folder}/planted.pth", line),
        command("rm -f .venv/bin/python; ln -s /bin/true .venv/bin/python"),
    ]


def _installation_lost(scene: AttackTestbed) -> str:
    said, code = scene.run_program(scene.swarm("--version"))
    if words := _escaped(scene):
        return words
    return "" if code == 0 else f"swarm does not start any more: {said[-300:]}"


_KEYS = {  # providers whose keys a command of theirs prints, and what it is
    "bare": ("own-key", ()),
    "absolute": ("{project}/key.sh", ()),
    "shell": ("/bin/sh", ("{project}/key.sh",)),
    "words": ("/bin/sh", ("-c", "{project}/key.sh")),
    "module": (_SYSTEM_PYTHON, ("-m", "key")),
    "script": (_SYSTEM_PYTHON, ("{project}/key.py",)),
    "env": ("/usr/bin/env", ("-S", "own-key")),
    "linked": ("{home}/bin/linked-key", ()),
    "first-line": ("{home}/bin/tool", ()),
    "make": ("make", ("-s", "-C", "{project}", "key")),
}


def _key_providers(scene: AttackTestbed) -> None:
    _program(scene.home / "bin/tool", "#!/usr/bin/env toolrunner\n")
    (scene.project / "key.sh").write_text("#!/bin/sh\necho first-key-of-the-scene\n")
    (scene.home / "bin/linked-key").symlink_to(scene.project / "key.sh")
    text = ""
    for name, (program, words) in _KEYS.items():
        made = [one.format(project=scene.project, home=scene.home) for one in (program, *words)]
        text += (
            f'[model_providers.{name}]\nname = "x"\nbase_url = "http://127.0.0.1:9/v1"\n'
            f"request_max_retries = 0\nstream_max_retries = 0\n"
            f'[model_providers.{name}.auth]\ncommand = "{made[0]}"\nargs = {json.dumps(made[1:])}\n'
            f'cwd = "{scene.project}"\n'
        )
    _configure(scene, text)


def _plant_keys(scene: AttackTestbed) -> Sequence[Call]:
    python = f"open({str(_mark(scene))!r}, 'w')\n"
    make = f"key:\n\t@touch {_mark(scene)}\n"
    shell = _shell(scene, "echo a-key-of-the-agent")
    return [
        *(_plant(scene, one, shell) for one in
          (".venv/bin/own-key", ".venv/bin/toolrunner", "key.sh")),
        *(_plant(scene, one, python) for one in ("key.py", "key/__init__.py", "key/__main__.py")),
        _plant(scene, "Makefile", make),
    ]  # fmt: skip


def _asked_for_keys(scene: AttackTestbed) -> str:
    """The person's next commands need a key of each provider, in the project and with -C."""
    path = {"PATH": _PATH["PATH"]}
    for name in _KEYS:
        given = ("run", "-p", "x", "--provider", name, "-m", "m", "--ephemeral", *_OPTIONS)
        script = 'cd / && exec "$@"'
        swarm = scene.swarm(*given, "-C", str(scene.project))
        said, _ = scene.run_program(["/bin/sh", "-c", script, "sh", *swarm], extra=path)
        if f"model_providers.{name}.auth" not in said and not _escaped(scene):
            return f"nobody was told why the key command {name!r} is not used: {said[-200:]}"
        if found := _escaped(scene):
            return f"{found}, as the key command {name!r} of a run"
        probe = scene.swarm("models", "probe", "m", "--provider", name)
        scene.run_program(probe, extra=path)
        if found := _escaped(scene):
            return f"{found}, as the key command {name!r} of a probe"
    for words in (("doctor",), ("models", "list")):
        scene.run_program(scene.swarm(*words), extra=path)
    return _escaped(scene)


def _held_key(scene: AttackTestbed) -> None:
    """A key command of the person's own, which leaves a file when it is asked."""
    _program(scene.home / "bin/own-key", f"#!/bin/sh\ntouch {_mark(scene)}\necho key-123456789\n")
    _configure(
        scene,
        '[model_providers.own]\nname = "x"\nbase_url = "http://127.0.0.1:9/v1"\n'
        "request_max_retries = 0\nstream_max_retries = 0\n"
        '[model_providers.own.auth]\ncommand = "own-key"\n',
    )


def _was_asked(scene: AttackTestbed) -> str:
    given = ("run", "-p", "x", "--provider", "own", "-m", "m", "--ephemeral", *_OPTIONS)
    said, _ = scene.run_program(scene.swarm(*given), extra=_PATH_HOME)
    return "" if _escaped(scene) else f"a held key command was not asked: {said[-300:]}"


_PATH_HOME = {"PATH": "{folder}/home/bin:/usr/bin:/bin"}


PLAYS = (
    Attack(
        name="Programs of allow rules are exchanged on PATH, behind links and behind first lines",
        calls=_exchange,
        find_escape=_escaped,
        prepare=_rules,
        options=lambda _: _OPTIONS,
        environment=_PATH,
        fast=True,
    ),
    Attack(
        name="Allow rules take held programs outside: the system's, and node below the home folder",
        calls=_use_held,
        find_escape=_not_outside,
        prepare=_held_rules,
        options=lambda _: _OPTIONS,
        tried=run_ended,
        must_work=True,
        environment={
            "PATH": "{folder}/project/.venv/bin:{folder}/home/.nvm/versions/node/v1/bin:"
            "/usr/bin:/bin"
        },
    ),
    Attack(
        name="The start-up files of the person's login shell lie in the project",
        calls=_write_dotfiles,
        find_escape=_next_run,
        prepare=_dotfiles,
        options=lambda _: _OPTIONS,
        fast=True,
    ),
    Attack(
        name="The program that tells a person of a turn's end is exchanged on PATH",
        calls=_exchange_notify,
        find_escape=_escaped,
        prepare=_notify,
        options=lambda _: _OPTIONS,
        environment=_PATH,
    ),
    Attack(
        name="The script of an MCP server without a sandbox is rewritten before its next start",
        calls=_rewrite,
        find_escape=lambda scene: _escaped(scene) or _served(scene),
        prepare=_script_server,
        options=lambda _: _OPTIONS,
        environment=_PATH,
        fast=True,
    ),
    Attack(
        name="The script of an MCP server is rewritten by a run that knows nothing of the server",
        calls=_rewrite_between,
        find_escape=_next_server,
        prepare=_known_server,
        options=lambda _: _OPTIONS,
        environment=_PATH,
        fast=True,
    ),
    Attack(
        name="The program of an MCP server without a sandbox is exchanged on PATH",
        calls=_exchange_server,
        find_escape=lambda scene: _escaped(scene) or _served(scene) or _by_hand(scene),
        prepare=_bare_server,
        options=lambda _: _OPTIONS,
        environment=_PATH,
    ),
    Attack(
        name="A script that a shell is given starts an MCP server with a token and a folder",
        calls=_rewrite_start,
        find_escape=_escaped,
        prepare=_folder_server,
        options=lambda _: _OPTIONS,
        environment=_PATH,
    ),
    Attack(
        name="swarm in the project's own environment is rewritten for the person's next command",
        calls=_rewrite_installation,
        find_escape=_installation_lost,
        prepare=_own_installation,
        options=lambda _: _OPTIONS,
    ),
    Attack(
        name="The command that prints a provider's key lies where the agent wrote",
        calls=_plant_keys,
        find_escape=_asked_for_keys,
        prepare=_key_providers,
        options=lambda _: _OPTIONS,
        deadline_s=90.0,
    ),
    Attack(
        name="A key command that is held is asked for the key",
        calls=lambda _: [command("true")],
        find_escape=_was_asked,
        prepare=_held_key,
        options=lambda _: _OPTIONS,
        must_work=True,
    ),
)
