"""Place the code objects that every agent runs side by side, so that running them copies few pages.

Running a function writes to its code object: CPython counts calls and specialises the code. Code
objects lie in import order, so those that an agent runs are scattered among those that it never
runs, and each forked child copies nearly one page for each function. Copies made one after another
share pages: an agent takes 0.4 MB less. A code object that is known by its identity (one with a
weak reference) is not copied.
"""

import gc
import sys
import weakref
from collections.abc import Callable, Set
from types import CodeType, FrameType, FunctionType

Codes = dict[int, CodeType]  # by identity: equal code objects of two functions count as two


def trace_executed_code(life: Callable[[], object]) -> Codes:
    """Return the code of every function that runs in `life`."""
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
    """Give each function with such a code a copy of it; return how many were copied.

    Call it where nothing else runs and after the gaps between objects are filled (`prewarm.py`),
    and run the code several times afterwards: new code is specialised again. Code with a weak
    reference stays where it is: Trio marks so the code that Ctrl-C must not interrupt.

    Args:
        codes: The code that an agent runs; the caller must not use it afterwards.
        also: Names of modules all of whose functions count as run: the in-memory session uses no
            sockets.
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
    """Return all functions of this process, the frozen ones too."""
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
    """Return the one copy of a code that runs, with copies of its inner codes that run as well."""
    if id(code) not in codes or weakref.getweakrefcount(code):
        return code
    if id(code) not in copies:
        inner = (
            _copy(one, codes, copies) if isinstance(one, CodeType) else one
            for one in code.co_consts
        )
        copies[id(code)] = code.replace(co_consts=tuple(inner))
    return copies[id(code)]
