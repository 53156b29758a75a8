"""Words that people type for other commands: aliases, and answers by meaning. Pure."""

import difflib
from collections.abc import Mapping

ALIASES = {  # they do exactly what the command does, with its options
    "list": "ps",
    "ls": "ps",
    "runs": "ps",
    "logs": "log",
    "delete": "rm",
    "remove": "rm",
    "tree": "show",
}
_MEANINGS: dict[str, str] = {  # command → other words for what it does
    "ps": "sessions jobs history",
    "top": "dashboard overview htop center all",
    "show": "status inspect view info details transcript summary report agents",
    "watch": "attach monitor follow live tail",
    "log": "events trace journal audit",
    "result": "answer output report last",
    "diff": "changes patch compare",
    "undo": "revert restore reset rewind back",
    "merge": "apply integrate accept-changes",
    "interrupt": "stop cancel abort halt",
    "kill": "stop terminate quit destroy",
    "end": "stop finish close exit",
    "pause": "suspend hold freeze",
    "continue": "unpause go",
    "resume": "restart retry again continue-run reopen",
    "send": "message tell say steer prompt mail",
    "approve": "allow yes permit",
    "deny": "reject no refuse",
    "approvals": "requests questions pending waiting permissions",
    "chat": "talk ask tui interactive code repl conversation shell",
    "run": "start exec-task task new go-run launch do",
    "exec": "codex non-interactive headless print",
    "models": "model providers llm download pull",
    "config": "settings configure set-config preferences options",
    "doctor": "check diagnose health debug verify setup",
    "export": "archive-run save backup dump share",
    "rm": "erase drop discard",
    "prune": "clean cleanup gc purge clear",
    "name": "rename label title",
    "plugin": "plugins extension extensions marketplace install",
    "memory": "memories remember recall learned",
    "skills": "skill",
    "hooks": "hook",
    "roles": "role personas agents",
    "mcp": "server servers tools",
    "trust": "untrust",
    "login": "signin sign-in authenticate key keys account",
    "logout": "signout sign-out",
    "hosts": "host machines nodes cluster",
    "sandbox": "isolate jail",
    "completion": "completions autocomplete",
    "review": "critique lint pr",
    "fork": "branch-run clone copy",
    "set": "change",
    "features": "feature flags experimental",
    "init": "agents.md create scaffold",
}
_ANSWERS = {  # where no command does it, or none alone
    "stats": "`swarm ps` lists runs with tokens and cost, `swarm show RUN` each agent of one",
    "cost": "`swarm ps` lists runs with tokens and cost, `swarm show RUN` each agent of one",
    "usage": "`swarm ps` lists runs with tokens and cost, `swarm show RUN` each agent of one",
    "search": "`swarm memory search WORDS` searches what runs learned, `swarm log RUN` prints all",
    "find": "`swarm memory search WORDS` searches what runs learned, `swarm log RUN` prints all",
    "auth": "`swarm login PROVIDER` stores a key or signs in, `swarm logout PROVIDER` removes it",
    "update": "swarm is updated as it was installed; `swarm plugin update` updates plugins",
    "upgrade": "swarm is updated as it was installed; `swarm plugin update` updates plugins",
    "uninstall": "swarm is removed as it was installed; `swarm plugin remove` removes plugins",
}
_CLOSE = 0.75  # how alike two words are of which one may be a slip of the other


def suggest_command(word: str, commands: Mapping[str, str]) -> str:
    """What to type instead of a word that is no command. By meaning first, then by letters.

    Args:
        word: What was typed.
        commands: Each command with what it does, in one sentence.
    """
    if word.endswith(".md"):
        return f"to run a task file: swarm run {word}"
    asked = word.lower().lstrip("/-").replace("_", "-")
    known = [*_ANSWERS, *_words_of(commands), *ALIASES]
    near = difflib.get_close_matches(asked, [*commands, *known], n=1, cutoff=_CLOSE)
    meant = asked if asked in known else "".join(near)
    if meant in _ANSWERS and meant not in commands:
        return _ANSWERS[meant]
    if meant in commands or meant in ALIASES:
        return f"did you mean `{meant}`?"
    if found := _words_of(commands).get(meant, []):
        return "; ".join(f"`swarm {name}`: {commands[name].rstrip('.')}" for name in found)
    return "`swarm --help` lists all commands"


def _words_of(commands: Mapping[str, str]) -> dict[str, list[str]]:
    """Other words → the commands that they may mean."""
    found: dict[str, list[str]] = {}
    for command, words in _MEANINGS.items():
        for word in words.split() if command in commands else ():
            found.setdefault(word, []).append(command)
    return found
