"""Pages that lives leave behind half empty: given back to the system now and then.

Ten thousand agents that came and went leave the allocator's heap in pieces: nothing is in use, and
yet this process would keep almost 2 MB more. Where the C library cannot do it, nothing happens.
"""

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc


def trim_heap() -> None:
    """About a millisecond; so once for many agents."""
    if _trim is not None:
        _trim(0)
