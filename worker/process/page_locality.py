"""Code that every agent runs, laid side by side, so that running it copies few pages.

To run a function is to write to its code: it is counted, and specialised. Code lies in the order
of imports, so what an agent runs is strewn among what it never runs, and each forked child copies
nearly one page for each function. Copies made one after another share pages: an agent weighs
0.4 MB less. Guard: whoever knows a code by its identity keeps it.
"""

import gc
import sys
import weakref
from collections.abc import Callable, Set
from types import CodeType, FrameType, FunctionType

Codes = dict[int, CodeType]  # by identity: equal codes of two functions are two


def trace_executed_code(life: Callable[[], object]) -> Codes:
    """The code of every function that runs in `life`."""
    codes: Codes = {}

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            codes[id(frame.f_code)] = frame.f_code

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        life()
    finally:
        sys.setprofile(before)
    return codes


def colocate_code(codes: Codes, *, also: Set[str] = frozenset()) -> int:
    """Give each function with such a code a copy of it; returns how many were copied.

    Call it where nothing else runs, when no gaps are left between objects (`preparation`), and
    let all of it run some more times after it: new code is specialised anew. Code with a weak
    reference to it stays where it is: Trio marks so what Ctrl-C must not interrupt.

    Args:
        codes: What an agent runs; the caller has nothing more to do with it.
        also: Names of modules all of whose functions count as run: no life in memory has sockets.
    """
    functions = _functions()
    for function in functions:
        if function.__module__ in also:
            _add(codes, function.__code__)
    copies: Codes = {}
    for function in functions:
        old = function.__code__
        if id(old) in codes and (new := _copy(old, codes, copies)) is not old:
            function.__code__ = new
    return len(copies)


def _functions() -> list[FunctionType]:
    """All of this process, the frozen ones too."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    found = [one for one in gc.get_objects() if type(one) is FunctionType]
    if was_frozen:
        gc.freeze()
    return found


def _add(codes: Codes, code: CodeType) -> None:
    codes[id(code)] = code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            _add(codes, inner)


def _copy(code: CodeType, codes: Codes, copies: Codes) -> CodeType:
    """The one copy of a code that runs, with copies of those inside that run as well."""
    if id(code) not in codes or weakref.getweakrefcount(code):
        return code
    if id(code) not in copies:
        inner = (
            _copy(one, codes, copies) if isinstance(one, CodeType) else one
            for one in code.co_consts
        )
        copies[id(code)] = code.replace(co_consts=tuple(inner))
    return copies[id(code)]
