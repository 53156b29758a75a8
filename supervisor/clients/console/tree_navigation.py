"""Key handling of the live tree: selection, sort order, unfolded subtrees. Pure.

Keys change only what a person sees; they never affect the run.
"""

from typing import get_args

import msgspec

from swarm.mailbox.protocol.control import RunView

from ...views.row_selection import SortOrder, paths_in_order
from .theme import Glyphs
from .tree_view import TreeOptions

SORTS: tuple[SortOrder, ...] = get_args(SortOrder)
_PAGE = 10  # agents
_KEYS = "up, down select · Enter transcript · right, left unfold · s sort ({sort})"
_LEAVE = " · q quit"


class TreeNavigation(msgspec.Struct, frozen=True, kw_only=True):
    """The navigation state of one viewer."""

    selected: str = ""
    sort: SortOrder = "tree"
    open_paths: frozenset[str] = frozenset()
    opened: str = ""  # the agent whose transcript is on the screen
    left: bool = False  # the person has quit
    may_leave: bool = True  # False: the viewer is the process of the run itself

    def options(self, glyphs: Glyphs) -> TreeOptions:
        keys = _KEYS + _LEAVE if self.may_leave else _KEYS
        hint = keys.replace(" · ", glyphs.dot).format(sort=self.sort)
        return TreeOptions(
            sort=self.sort,
            open_paths=self.open_paths,
            glyphs=glyphs,
            selected=self.selected,
            hint=f"{hint}{glyphs.dot}{self.selected}" if self.selected else hint,
        )


def handle_key(browse: TreeNavigation, key: str, view: RunView) -> TreeNavigation:
    """The state after a key; unknown keys change nothing."""
    match key:
        case "q" | "ctrl-c" if browse.may_leave:
            return msgspec.structs.replace(browse, left=True)
        case "esc" | "q" if browse.opened:
            return msgspec.structs.replace(browse, opened="")
        case _ if browse.opened:
            return browse  # the page handles its own scrolling
        case "esc":
            return msgspec.structs.replace(browse, selected="")
        case "s":
            following = SORTS[(SORTS.index(browse.sort) + 1) % len(SORTS)]
            return msgspec.structs.replace(browse, sort=following)
        case "enter" if browse.selected:
            return msgspec.structs.replace(browse, opened=browse.selected)
        case "right" | "left" if browse.selected:
            paths = browse.open_paths - {browse.selected}
            if key == "right":
                paths |= {browse.selected}
            return msgspec.structs.replace(browse, open_paths=paths)
        case "up" | "down" | "page_up" | "page_down" | "home" | "end":
            return _moved(browse, key, view)
        case _:
            return browse


def _moved(browse: TreeNavigation, key: str, view: RunView) -> TreeNavigation:
    order = paths_in_order(view.agents, sort=browse.sort, open_paths=browse.open_paths)
    if not order:
        return browse
    last = len(order) - 1
    step = {"up": -1, "down": 1, "page_up": -_PAGE, "page_down": _PAGE}
    if key in {"home", "end"}:
        index = 0 if key == "home" else last
    elif browse.selected in order:
        index = min(max(order.index(browse.selected) + step[key], 0), last)
    else:
        index = 0 if step[key] > 0 else last
    return msgspec.structs.replace(browse, selected=order[index])
