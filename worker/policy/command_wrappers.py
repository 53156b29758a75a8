"""Programs and shell words that run the command after them: `sudo`, `time`, `xargs`. Pure.

Such a word in front of a command does not evade a rule that forbids it. Where it is unknown whether
an option takes a value, both readings are followed; what is found here may only make a decision
stricter.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from .shell_parser import program_name
from .shell_words import ShellWord, ShellWords

MAX_LAYERS = 400  # no real command has more; a caller must check whether the limit was reached
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_NOTHING = frozenset[str]()


class Wrapper(NamedTuple):
    """`operands` of the wrapper come before the command; `valued` options take the next word."""

    operands: int = 0
    valued: frozenset[str] = _NOTHING
    plain: frozenset[str] = _NOTHING  # options without a value; others are read both ways


def _wrapper(valued: str = "", plain: str = "", *, operands: int = 0) -> Wrapper:
    return Wrapper(operands, frozenset(valued.split()), frozenset(plain.split()))


# Wrappers that do not change what the command does to files.
_TRANSPARENT: dict[str, Wrapper] = {
    **dict.fromkeys(
        ("!", "{", "(", "if", "then", "else", "elif", "while", "until", "do", "coproc"), Wrapper()
    ),
    "sudo": _wrapper(
        "-u -g -h -p -C -T -U -R -D -r -t --user --group --host --prompt --chdir --chroot --role "
        "--type --other-user --close-from --command-timeout",
        "-A -B -b -E -e -H -i -K -k -l -N -n -P -S -s -v --preserve-env --login --non-interactive",
    ),
    "doas": _wrapper("-u -C", "-n -s -L"),
    "env": _wrapper("-u -C --unset --chdir", "-i -0 -v - --ignore-environment"),
    "time": _wrapper(
        "-f -o --format --output", "-p -a -v -q --portability --verbose --append",
    ),
    "nohup": Wrapper(), "builtin": Wrapper(), "unbuffer": _wrapper("", "-p"),
    "command": _wrapper("", "-p"), "exec": _wrapper("-a", "-c -l"), "noglob": Wrapper(),
    "nocorrect": Wrapper(), "setsid": _wrapper("", "-c -f -w --ctty --fork --wait"),
    "nice": _wrapper("-n --adjustment"), "ionice": _wrapper("-c -n -p -P -u", "-t"),
    "chrt": _wrapper("-T -P -D", "-a -b -f -i -m -o -r -d -R -v", operands=1),
    "taskset": _wrapper("", "-a -c -p --cpu-list --all-tasks", operands=1),
    "timeout": _wrapper("-k -s --kill-after --signal", "-v -f -p --foreground", operands=1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "chroot": _wrapper("--userspec --groups", "--skip-chdir", operands=1),
    "unshare": _wrapper("-R -w -S -G --root --wd", "-r -m -u -i -n -p -U -C -T -f --fork -c"),
    "nsenter": _wrapper("-t -S -G --target", "-a -m -u -i -n -p -U -C -F -e"),
    "setpriv": _wrapper("--reuid --regid --groups", "--clear-groups --keep-groups --nnp"),
    "setarch": _wrapper("", "-R -v -L -3 -B -F -I -S -T -X -Z"), "linux32": Wrapper(),
    "linux64": Wrapper(), "flock": _wrapper("-w -E --timeout", "-s -x -u -n -o -F -e", operands=1),
    "runuser": _wrapper("-u -g -G -s -w --user", "-p -m -l -f"), "firejail": Wrapper(),
    "strace": _wrapper("-o -e -p -s -u -a -E -I -P", "-f -ff -c -v -q -t -tt -T -y -yy -C -k"),
    "ltrace": _wrapper("-o -e -p -s -u -a -n -l -x", "-f -c -C -S -t -tt -T"),
    "systemd-run": _wrapper("-p -u -E -H -M -G --unit --property", "--user --scope -q -t -P --pty"),
    "systemd-inhibit": Wrapper(), "dbus-run-session": Wrapper(),
    "xvfb-run": _wrapper("-e -f -n -p -s"),
    "fakeroot": _wrapper("-l -s -i -b", "-u"), "eatmydata": Wrapper(), "pkexec": _wrapper("--user"),
    "catchsegv": Wrapper(), "proxychains": _wrapper("-f", "-q"), "torsocks": Wrapper(),
    "prlimit": _wrapper("-p -o --pid"), "cgexec": _wrapper("-g", "--sticky"),
    "dumb-init": Wrapper(),
    "tini": Wrapper(), "gosu": _wrapper(operands=1), "su-exec": _wrapper(operands=1),
    "watch": _wrapper("-n --interval -q", "-b -c -d -e -g -p -t -w -x"),
    "busybox": Wrapper(), "toybox": Wrapper(), "caffeinate": _wrapper("-t -w"),
}  # fmt: skip
# These run the command with words from elsewhere.
_ARGUMENT_RUNNERS: dict[str, Wrapper] = {
    "xargs": _wrapper(
        "-I -n -P -L -d -E -s -a --max-args --max-procs --replace --delimiter --arg-file "
        "--max-lines --max-chars", "-0 -r -t -p -x -o -i -l -e --null --no-run-if-empty --verbose",
    ),
    "parallel": _wrapper("-j -a -I -S -N -n -L -d -E --jobs --joblog", "-k -0 -m -X -t -v --bar"),
}  # fmt: skip
_EXEC_OPTIONS = frozenset(
    {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}
)
_FINDERS = frozenset({"find", "fd", "fdfind", "bfs"})
PIPED_INPUT = ShellWord("what it is fed", "unknown")


def is_transparent(words: ShellWords) -> bool:
    """Whether the first word is a wrapper that does nothing of its own."""
    return bool(words) and words[0].kind == "literal" and _name(words) in _TRANSPARENT


def unwrap_command(words: ShellWords) -> ShellWords:
    """The command in the straightforward reading: without `sudo -u x`, `env A=b`, … in front."""
    for _ in range(MAX_LAYERS):
        if not is_transparent(words):
            return words
        words = next(_inner_commands(words, _TRANSPARENT[_name(words)]), ())
    return words


def unwrap_layers(words: ShellWords, *, fed: bool = True) -> Iterator[ShellWords]:
    """The command, and each command that it may run, in every reading; at most 400.

    Args:
        words: The command.
        fed: Also what `xargs`, `find -exec` and similar programs run, with the words given to them.
    """
    waiting, seen = [words], set[ShellWords]()
    while waiting and len(seen) < MAX_LAYERS:
        one = waiting.pop()
        if not one or one in seen:
            continue
        seen.add(one)
        yield one
        if one[0].kind != "literal":
            continue
        name = _name(one)
        if name in _TRANSPARENT:
            waiting += reversed(list(_inner_commands(one, _TRANSPARENT[name])))
        elif fed:
            waiting += reversed(list(indirect_commands(one)))


def indirect_commands(words: ShellWords) -> Iterator[ShellWords]:
    """The commands that a program runs with words that it finds itself, without its `{}` marks."""
    if not words or words[0].kind != "literal":
        return
    name = _name(words)
    if name in _ARGUMENT_RUNNERS:
        yield from _inner_commands(words, _ARGUMENT_RUNNERS[name])
    elif name in _FINDERS:
        for at, word in enumerate(words):
            if word.text in _EXEC_OPTIONS:
                yield _until_end(words[at + 1 :])
    elif name == "git":
        texts = [word.text for word in words]
        if "bisect" in texts and texts[-1] != "run" and "run" in texts:
            yield words[texts.index("run") + 1 :]


def _until_end(words: ShellWords) -> ShellWords:
    texts = [word.text for word in words]
    end = min(
        (texts.index(mark) for mark in (";", "\\;", "+") if mark in texts), default=len(texts)
    )
    return tuple(word for word in words[:end] if word.text != "{}")


def _name(words: ShellWords) -> str:
    return program_name(words[0].text)


def _inner_commands(words: ShellWords, wrapper: Wrapper) -> Iterator[ShellWords]:
    """What follows the wrapper's own options and operands, in every reading of them."""
    if _name(words) == "command" and any(word.text in ("-v", "-V") for word in words[1:2]):
        return  # only asks where the program is
    if _name(words) == "coproc" and len(words) > 2 and words[2].text in ("{", "("):
        yield words[3:]
        return
    waiting, seen = [(1, wrapper.operands, False)], set[tuple[int, int, bool]]()
    while waiting:
        at, own, ended = state = waiting.pop(0)
        if at >= len(words) or state in seen:
            continue
        seen.add(state)
        text = words[at].text
        if not ended and text == "--":
            waiting.append((at + 1, own, True))
        elif not ended and text.startswith("-"):
            waiting += [(at + step, own, False) for step in _steps(text, wrapper)]
        elif _ASSIGNMENT.match(text):
            waiting.append((at + 1, own, False))
        elif own:
            waiting.append((at + 1, own - 1, ended))
        else:
            yield words[at:]


def _steps(option: str, wrapper: Wrapper) -> tuple[int, ...]:
    """How many words an option takes, including itself."""
    if option in wrapper.plain or (option.startswith("--") and "=" in option):
        return (1,)
    if option in wrapper.valued:
        return (2,)
    if not option.startswith("--") and len(option) > 2:
        return (1, 2) if option[:1] + option[-1] in wrapper.valued else (1,)  # `-I{}`, `-kn 5`
    return (1, 2)
