"""Gives agents their copies of the project: a base that does not change, and layers of their own.

A base is made when an agent is about to start in a copy and the project has changed since the last
base. Agents that start together share one. What an agent wrote stays in its layer over its
processes, the run's end and a resume.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.protocol.spec import CopyView
from swarm.mailbox.protocol.values.limits import DangerFullAccess

from ...agents.agent_record import AgentPlan
from ...processes.machine_sandbox import SandboxMissing
from ...processes.process_types import SpawnError
from ...request.run_request import CopyKind, RunRequest
from ...runs.paths import RunPaths
from ..undo.tree_walk import roots_of
from ..undo.watched_tree import now_ns
from .agent_tree import make_agent_tree, show_folders, shown_in_place
from .base_tree import SPARE_BYTES, make_tree
from .copy_bounds import (
    check_one_folder,
    find_path_outside,
    names_folders,
    sandbox_when_working,
)
from .copy_folder import AgentCopy, CopiedRoot, CopyFolder
from .copy_kind import find_copy_kind
from .frozen_layer import MAX_BYTES, LayerFreezer
from .prepare_commands import find_tool_folders
from .prepared_layers import NOTHING_WANTED, Preparation, PreparedLayers
from .tree_survey import CopyRefused, Survey, survey_tree

MAKE_LIMIT_S = 600.0  # for a base
_AHEAD_DELAY_S, _AHEAD_MOST_BYTES = 0.5, 512 << 20  # of a base that nobody has wanted so far
_MOST_LEVELS = 64  # of copies of copies
_BURST_S = 1.0  # agents that start so soon after another one need no look at the project
OUTSIDE_SANDBOX = (
    "this agent works in a copy of the project, and only the sandbox holds its commands to it"
)


class _Base(msgspec.Struct):
    """The newest base of some roots."""

    number: int
    roots: tuple[str, ...]
    surveys: tuple[Survey, ...]
    seen_at: float  # of Trio's clock
    changes: int  # calls that may have changed files, until then


class ProjectCopies:
    """One per run. A run without agents in copies makes nothing."""

    def __init__(
        self,
        paths: RunPaths,
        kind: CopyKind | None = None,
        preparation: Preparation = NOTHING_WANTED,
    ) -> None:
        """`kind`: what this machine can have; None: it is tried when the first copy is wanted."""
        self._paths = paths
        self._kind: CopyKind | None = kind
        self.folder = CopyFolder(paths.copies, paths.copy_trees)
        self._prepared = PreparedLayers(self.folder, preparation)
        self._base: _Base | None = None
        self._changes = 0
        self._lock = trio.Lock()

    async def make_ahead(self, request: RunRequest) -> None:
        """Make a base in a run whose agents work in copies, before the first of them is wanted.

        The root's first request goes first. Why there is none is said to who wants a copy.
        """
        items = "shared" if request.fan_out is None else request.fan_out.agents.isolation
        if request.resumes or "copy" not in (request.copies.isolation, items):
            return
        await trio.sleep(_AHEAD_DELAY_S)
        roots = roots_of(request.sandbox, request.cwd, request.add_dirs)
        if not roots:
            return
        with suppress(CopyRefused, OSError, ValueError):
            async with self._lock:
                self._check_places(roots)
                await self._fresh_base(roots, most_bytes=_AHEAD_MOST_BYTES)

    def held(self) -> AbstractAsyncContextManager[object]:
        """While it is held no process starts in a copy: a copy that is written has none."""
        return self._lock

    def note_call(self) -> None:
        """A call of an agent that shares the project may change files now, or may have."""
        self._changes += 1

    async def prepare(
        self, plan: AgentPlan, *, is_first: bool, hidden: tuple[str, ...] = ()
    ) -> CopyView:
        """How the agent's next process gets its copy, if it works in one.

        Args:
            plan: The agent's.
            is_first: No process of the agent has started before; only then it gets a new copy.
            hidden: What commands that get the copy ready must not see.

        Raises SpawnError that says why it cannot have a copy.
        """
        if plan.limits.isolation != "copy":
            return CopyView()
        try:
            async with self._lock:  # nobody else writes the copy then
                known = await trio.to_thread.run_sync(self.folder.find, plan.agent_id)
            if known is not None:
                return self._view(known)
            if not is_first:
                raise CopyRefused("the one that it worked in is gone")
            with trio.fail_after(MAKE_LIMIT_S):
                async with self._lock:
                    made = await self._make(plan)
            if not (made.above or made.sees or plan.host):
                made = await self._with_prepared(made, hidden)
            await trio.to_thread.run_sync(self.folder.add_agent, made)
            return self._view(made)
        except (CopyRefused, SandboxMissing) as error:
            raise SpawnError(f"{plan.path} gets no copy of the project: {error}") from error
        except (OSError, ValueError) as error:
            raise SpawnError(
                f"{plan.path} gets no copy of the project: {self._paths.copies}: {error}"
            ) from error
        except trio.TooSlowError as error:
            raise SpawnError(
                f"{plan.path} gets no copy of the project: it took over {MAKE_LIMIT_S:g} s"
            ) from error

    def check_change(self, plan: AgentPlan) -> None:
        """Raises UsageError if an agent's copy would not hold what it may write by this plan."""
        if plan.limits.isolation != "copy":
            return
        try:
            copy = self.folder.find(plan.agent_id)
        except (OSError, ValueError) as error:
            raise UsageError(f"the copy of {plan.path} cannot be read: {error}") from error
        if copy is None:
            return  # it is made at the start, of what may be written then
        if copy.sees and not plan.only_looks:
            raise UsageError(
                f"{plan.path} only sees the copy in which {plan.parent} works, so it cannot write; "
                "start another agent"
            )
        if path := find_path_outside(plan, (root.path for root in copy.roots)):
            raise UsageError(
                f"{path} is not in the copy in which {plan.path} works; start another agent there"
            )
        if copy.tree and not copy.sees and names_folders(plan):
            raise UsageError(
                f"{plan.path} works in a copy that is another folder, so no sandbox that names "
                "folders fits it; start another agent"
            )

    async def _with_prepared(self, made: AgentCopy, hidden: tuple[str, ...]) -> AgentCopy:
        """With what commands have made for all copies like it; a copy of it has that, too."""
        key = await self._prepared.make_ready(made, hidden)
        if key and made.tree:
            show = partial(self._show_prepared, made, key)
            await trio.to_thread.run_sync(show, abandon_on_cancel=False)
        return msgspec.structs.replace(made, prepared=key)

    def _show_prepared(self, made: AgentCopy, key: str) -> None:
        """Raises OSError."""
        tree = Path(made.tree)
        show_folders(find_tool_folders(self.folder.prepared_tree(key)), tree)
        self.folder.write_start(made.agent_id, survey_tree(made.tree, (), now_ns=now_ns()))

    async def _make(self, plan: AgentPlan) -> AgentCopy:
        """Raises CopyRefused, SandboxMissing, OSError, ValueError."""
        above = None
        if plan.parent is not None and plan.reports:  # items of a fan-out begin before its root
            above = await trio.to_thread.run_sync(self._find_by_path, plan.parent)
        if plan.only_looks:
            return await self._make_seen(plan, above)
        if above is None:
            return await self._make_of_project(plan)
        if above.sees:
            raise CopyRefused(f"{plan.parent} only sees a copy, so nobody below it can write")
        self._check(plan, tuple(root.path for root in above.roots))
        made = await (self._make_of_tree if above.tree else self._make_of_layers)(plan, above)
        return msgspec.structs.replace(
            made, agent_id=plan.agent_id, path=plan.path, cwd=plan.cwd, above=above.agent_id
        )

    async def _make_seen(self, plan: AgentPlan, above: AgentCopy | None) -> AgentCopy:
        """What an agent sees that cannot write: the copy of its parent, as it is now.

        A tree is shown itself; layers are frozen. Raises CopyRefused, OSError, ValueError.
        """
        if above is None:
            raise CopyRefused(f"the one in which {plan.parent} works is gone")
        made = above
        if not above.tree and not above.sees:
            made = await self._make_of_layers(plan, above)
        sees = above.sees or (above.agent_id if above.tree else plan.agent_id)
        return msgspec.structs.replace(
            made, agent_id=plan.agent_id, path=plan.path, cwd=plan.cwd, sees=sees
        )

    async def _make_of_layers(self, plan: AgentPlan, above: AgentCopy) -> AgentCopy:
        """A copy of one that consists of layers: these are frozen, below a layer of its own."""
        freeze = partial(self._freeze, above, self.folder.frozen(plan.agent_id))
        await trio.to_thread.run_sync(freeze, abandon_on_cancel=False)
        frozen = (plan.agent_id, *above.frozen_layers)
        return msgspec.structs.replace(above, frozen_with=frozen)

    async def _make_of_tree(self, plan: AgentPlan, above: AgentCopy) -> AgentCopy:
        """A copy of one that is a folder: that is its base as it is now."""
        (root,) = above.roots
        check_one_folder(plan, (root.path,))
        make = partial(
            make_base, self.folder, (above.tree,), None, go_on=trio.from_thread.check_cancelled
        )
        number, surveys = await trio.to_thread.run_sync(make, abandon_on_cancel=False)
        (copied,) = copied_roots((above.tree,), surveys)
        copied = msgspec.structs.replace(copied, path=root.path)
        made = msgspec.structs.replace(above, base=number, roots=(copied,))
        return await self._with_tree(made, plan, above.tree)

    def _find_by_path(self, path: str) -> AgentCopy | None:
        """The newest: the name of one that was never started is free again."""
        found = [one for one in self.folder.agents() if one.path == path]
        return found[-1] if found else None

    def _freeze(self, above: AgentCopy, into: Path) -> None:
        """Raises CopyRefused, OSError."""
        room = min(MAX_BYTES, shutil.disk_usage(self._paths.folder).free - SPARE_BYTES)
        freezer = LayerFreezer(trio.from_thread.check_cancelled, size=room)
        for layer, place in self.folder.layers(above):
            freezer.freeze(layer, into / place)

    def _view(self, known: AgentCopy) -> CopyView:
        if known.tree:
            origin = known.roots[0].path
            shows = (origin, *self._trees(known))
            if known.prepared:
                shows = (*shows, str(self.folder.prepared_tree(known.prepared)))
            return CopyView(origin=origin, tree=known.tree, shows=shows)
        return CopyView(mounts=self.folder.mounts(known))

    def _trees(self, known: AgentCopy) -> tuple[str, ...]:
        """The folders of which a folder is a copy: git's objects, for one, lie there."""
        found: list[str] = []
        while known.above and len(found) < _MOST_LEVELS:
            found.append(str(self.folder.agent_tree(known.above)))
            above = self.folder.find(known.above)
            if above is None:
                break
            known = above
        return tuple(found)

    async def _make_of_project(self, plan: AgentPlan) -> AgentCopy:
        roots = roots_of(sandbox_when_working(plan), plan.cwd, plan.add_dirs)
        self._check(plan, roots)
        is_tree = not plan.host and await self._find_kind() == "tree"
        if is_tree:
            check_one_folder(plan, roots)
        base = await self._fresh_base(roots)
        made = _copy_of(plan, base)
        if is_tree:
            return await self._with_tree(made, plan, made.roots[0].path)
        return made

    async def _with_tree(self, made: AgentCopy, plan: AgentPlan, origin: str) -> AgentCopy:
        """`origin`: where what is not copied lies. Raises CopyRefused, OSError."""
        tree = self.folder.agent_tree(plan.agent_id)
        fill = partial(self._fill_tree, made.base, origin, plan.agent_id, tree)
        await trio.to_thread.run_sync(fill, abandon_on_cancel=False)
        return msgspec.structs.replace(made, tree=str(tree))

    async def _find_kind(self) -> CopyKind:
        """Raises SandboxMissing."""
        if self._kind is not None:
            return self._kind
        kind: CopyKind = await trio.to_thread.run_sync(find_copy_kind, self._paths.folder.parent)
        self._kind = kind
        return kind

    def _fill_tree(self, base: int, origin: str, agent_id: str, tree: Path) -> None:
        """Raises CopyRefused, OSError."""
        source = self.folder.tree(base, 0)
        survey = self.folder.read_survey(base, 0)  # of what could be copied
        make_agent_tree(
            source, survey, shown_in_place(origin, survey), tree,
            go_on=trio.from_thread.check_cancelled,
        )  # fmt: skip
        start = survey_tree(str(tree), (), now_ns=now_ns())  # what differs later is its change
        self.folder.write_start(agent_id, start)

    def _check(self, plan: AgentPlan, roots: tuple[str, ...]) -> None:
        """Raises CopyRefused."""
        if isinstance(sandbox_when_working(plan), DangerFullAccess):
            raise CopyRefused("without a sandbox nothing holds its commands to it")
        if path := find_path_outside(plan, roots):
            raise CopyRefused(
                f"its commands may write {path}, and a copy consists of folders that exist; make "
                "it a folder, or do not let them write there"
            )
        self._check_places(roots)

    def _check_places(self, roots: tuple[str, ...]) -> None:
        """Raises CopyRefused for a copy that would hold the run's own folders, or what is there."""
        own = (self._paths.folder.parent, self._paths.sockets.parent)
        for root in roots:
            real = os.path.realpath(root)
            closed = next((one for one in self._paths.uncopied if is_within(real, one)), "")
            if closed:
                raise CopyRefused(
                    f"no command ever sees {closed}, so no copy holds {root}; let the agents work "
                    "in another folder"
                )
            for folder in own:
                if is_within(os.path.realpath(folder), root):
                    raise CopyRefused(
                        f"{folder} lies in {root}, and a copy would hide the run from its own "
                        "agents; set SWARM_HOME or XDG_RUNTIME_DIR to a folder outside"
                    )

    async def _fresh_base(self, roots: tuple[str, ...], most_bytes: int | None = None) -> _Base:
        base, changes = self._base, self._changes
        if base is not None and base.roots == roots:
            is_burst = trio.current_time() - base.seen_at < _BURST_S
            if is_burst and base.changes == changes:
                return base
        began = trio.current_time()
        work = partial(
            make_base,
            self.folder,
            roots,
            base,
            most_bytes=most_bytes,
            go_on=trio.from_thread.check_cancelled,  # nobody waits for the rest of it
        )
        number, surveys = await trio.to_thread.run_sync(work, abandon_on_cancel=False)
        self._base = _Base(number, roots, surveys, began, changes)
        return self._base


def _copy_of(plan: AgentPlan, base: _Base) -> AgentCopy:
    roots = copied_roots(base.roots, base.surveys)
    return AgentCopy(
        agent_id=plan.agent_id, path=plan.path, base=base.number, roots=roots, cwd=plan.cwd
    )


def copied_roots(roots: Sequence[str], surveys: Sequence[Survey]) -> tuple[CopiedRoot, ...]:
    """What a copy of these folders consists of, one survey each."""
    return tuple(
        CopiedRoot(
            path=root,
            mode=survey.mode,
            live=tuple((name, survey.entries[name].mode) for name in survey.live),
        )
        for root, survey in zip(roots, surveys, strict=True)
    )


def make_base(
    folder: CopyFolder,
    roots: tuple[str, ...],
    last: _Base | None,
    clock_ns: Callable[[], int] = now_ns,
    *,
    most_bytes: int | None = None,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[int, tuple[Survey, ...]]:
    """The last base if nothing has changed, else a new one, of at most so many bytes.

    `go_on`: as for `make_tree`; nothing of the base is left then.

    Raises CopyRefused, OSError.
    """
    began_ns = clock_ns()
    surveys = tuple(survey_tree(root, (), now_ns=began_ns) for root in roots)
    size = sum(survey.size_bytes for survey in surveys)
    if most_bytes is not None and size > most_bytes:
        raise CopyRefused(f"it would take {size >> 20} MiB")
    reused = last if last is not None and last.roots == roots else None
    if reused is not None and all(
        new.is_same_as(old) for new, old in zip(surveys, reused.surveys, strict=True)
    ):
        return reused.number, reused.surveys
    number = folder.newest_base() + 1
    made = folder.make_base_folder(number)
    try:
        for index, (root, survey) in enumerate(zip(roots, surveys, strict=True)):
            earlier = None
            if reused is not None:
                earlier = reused.surveys[index], folder.tree(reused.number, index)
            missing = make_tree(root, survey, folder.tree(number, index), earlier, go_on)
            entries = {name: one for name, one in survey.entries.items() if name not in missing}
            folder.write_survey(number, index, msgspec.structs.replace(survey, entries=entries))
    except BaseException:
        with suppress(OSError):
            remove_tree(made)  # half of a base takes room, and nobody would use it
        raise
    return number, surveys
