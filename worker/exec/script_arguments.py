"""Hands a shell a script that is too long for one argument of a program. Pure.

The kernel takes at most 128 KiB in one argument, and a quarter of the stack's limit (2 MiB as a
rule) in all arguments and variables. A longer script goes in pieces, as further arguments of the
same shell, which joins them and runs the result with `eval`: nothing lies in a file or a pipe that
another process could change, standard input stays free, `$0` is the shell's and there are no
positional parameters, as with the script in one argument. Only some messages of the shell differ
(`eval: line 3:` for `-c: line 3:`).
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from swarm.mailbox.base.errors import SwarmError

MOST_IN_ONE = 128 << 10  # bytes of one argument, with the zero behind it (MAX_ARG_STRLEN)
_PIECE_CHARS = 32_000  # of at most four bytes each
_FLAGS = ("-c", "-lc")
_POSIX = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "lksh", "ksh93", "rbash"))
_FISH = "fish"
_POINTER_BYTES = 8
_SPARE_BYTES = 8 << 10  # the program's path, and what the kernel adds of its own
_LEAST_ROOM, _MOST_ROOM = 128 << 10, 6 << 20


class CommandTooLong(SwarmError):
    """The system takes no command of this length; nothing was started. The text is for the model.

    `measured`: its bytes, or those of its longest argument; `allowed`: how many there may be.
    """

    def __init__(self, *, measured: int, allowed: int, what: str) -> None:
        super().__init__(
            f"{what} has {measured:,} bytes, and this machine takes {allowed:,}; nothing was "
            "started. Write long text to a file with apply_patch, or in several commands"
        )
        self.measured, self.allowed = measured, allowed


def fit_script(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The same command in arguments that a program may have.

    Raises CommandTooLong for a long script of a shell that is not known, and for any other word.
    """
    if sum(map(len, argv)) * 4 < MOST_IN_ONE or all(_size(word) <= MOST_IN_ONE for word in argv):
        return argv
    longest = max(_size(word) for word in argv)
    program = PurePath(argv[0]).name
    is_script = len(argv) == 3 and argv[1] in _FLAGS and _size(argv[2]) == longest
    if is_script and program in _POSIX:
        pieces = _pieces(argv[2])
        joined = "".join(f"${{{number}}}" for number in range(1, len(pieces) + 1))
        # `set --` on the script's first line: no parameters are left, and lines keep their numbers.
        return (argv[0], argv[1], f'eval "set --;{joined}"', argv[0], *pieces)
    if is_script and program == _FISH:
        pieces = _pieces(argv[2])
        joined = "".join(f"$argv[{number}]" for number in range(1, len(pieces) + 1))
        return (argv[0], argv[1], f'eval "set -e argv;{joined}"', *pieces)
    what = f"a script for {program:.40}" if is_script else f"one word of a call of {program:.40}"
    raise CommandTooLong(measured=longest, allowed=MOST_IN_ONE, what=what)


def check_room(argv: Sequence[str], environment: Mapping[str, str], *, stack_bytes: int) -> None:
    """Raises CommandTooLong if all of a command together has more than the system takes.

    `stack_bytes`: the soft limit of the stack, negative for none.
    """
    quarter = _MOST_ROOM if stack_bytes < 0 else stack_bytes // 4
    allowed = max(_LEAST_ROOM, min(quarter, _MOST_ROOM)) - _SPARE_BYTES
    words = (*argv, *(f"{name}={value}" for name, value in environment.items()))
    if len(words) * _POINTER_BYTES + sum(map(len, words)) * 4 <= allowed:
        return  # however many bytes each character has
    measured = sum(_size(word) + _POINTER_BYTES for word in words)
    if measured > allowed:
        what = "the command with its environment"
        raise CommandTooLong(measured=measured, allowed=allowed, what=what)


def _pieces(script: str) -> tuple[str, ...]:
    starts = range(0, len(script), _PIECE_CHARS)
    return tuple(script[start : start + _PIECE_CHARS] for start in starts)


def _size(word: str) -> int:
    return len(word.encode("utf-8", "surrogatepass")) + 1  # a zero ends it
