"""Reviews in a real run: `python -P guardian_program.py SCENARIO SCRIPT` prints its facts as JSON.

A process of its own, because a supervisor becomes a subreaper. The run's work is the scenario:
the gateway, the mailboxes, the journal and the reviewing processes are real; the agent that asks
exists only in the journal, where its history is written.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.base.process_tree import descendants_of
from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction, PendingApproval
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.items import FunctionCall, text_message
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    InputPosted,
    ItemRecorded,
    ProcessEnded,
    Reviewed,
    RunCompleted,
)
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import Inherited, RoleBrief
from swarm.mailbox.protocol.values.limits import Budget, Limits
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.approvals.approval_types import ReviewVerdict
from swarm.supervisor.base.silent_display import SilentDisplay
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.parts.guardian.guardian import make_guardian
from swarm.supervisor.processes.early_start import start_early
from swarm.supervisor.request.run_request import ApprovalSettings, ReviewSettings, RunRequest
from swarm.supervisor.run import run_to_end
from swarm.supervisor.runs.paths import find_user_paths


class GuardianWorkload:
    """The run's work: one scenario with a real guardian. The supervisor constructs it."""

    scenario: Callable[["GuardianWorkload"], Awaitable[object]]
    facts: object = None

    def __init__(self, running, control, agency, manager, ending, past) -> None:
        self.running, self.control = running, control
        self.root = AgentPlan(
            path="/root", agent_id=new_uuid7(), role=RoleBrief(), limits=Limits(),
            cwd=running.request.cwd,
        )  # fmt: skip
        self.asked = 0

    def close(self) -> None:
        """Nothing is left to write."""

    async def run(self) -> RunCompleted:
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            self.guardian = make_guardian(
                self.running, self.control, nursery, {"/root": self.root}.get
            )
            self.say("Tidy up the build folder.")
            facts = await type(self).scenario(self)
            nursery.cancel_scope.cancel()
        await self.running.journal.flush()
        GuardianWorkload.facts = {"facts": facts} | self.written()
        return RunCompleted(status="completed")

    def say(self, text: str) -> None:
        """A person's words join the history of the agent that asks."""
        name, file = new_uuid7(), self.root.agent_id
        parts = (TextInput(text=text),)
        self.running.note(InputPosted(input_id=name, parts=parts), agent="/root", file=file)
        item = text_message("user", text)
        body = ItemRecorded(turn_id="t", item=item, item_id=name, source="user")
        self.running.note(body, agent="/root", file=file)

    async def review(
        self, command: str = "rm -rf build", turn: str = "t", agent: str = "/root"
    ) -> ReviewVerdict:
        """Ask for one command."""
        self.asked += 1
        call = FunctionCall(call_id=f"c{self.asked}", name="exec_command", arguments=command)
        body = ItemRecorded(turn_id=turn, item=call, item_id=f"i{self.asked}")
        self.running.note(body, agent="/root", file=self.root.agent_id)
        action = CommandAction(argv=("bash", "-lc", command), cwd=self.root.cwd)
        request = ApprovalRequest(action=action, cause="dangerous", turn_id=turn, call_id="c")
        return await self.guardian.review(
            PendingApproval(
                approval_id=f"a{self.asked}", agent=agent, request=request, reviewer="guardian"
            )
        )

    def records(self, kind):
        found = read_records(self.running.paths)
        return [record for record in found if isinstance(record.body, kind)]

    async def until(self, holds):
        while not (found := holds()):  # noqa: ASYNC110 — what a journal holds has no event
            await trio.sleep(0.01)
        return found

    def is_reviewing(self) -> bool:
        """Whether the reviewer is shown, and in a turn."""
        view = self.running.broadcast.current_view()
        seen = next((one for one in view.agents if one.path == "/guardian"), None)
        return seen is not None and seen.state == "running"

    def prompts(self, path: str = "/guardian") -> list[str]:
        """What the reviewer at this path was asked."""
        return [
            "\n".join(part.text for part in record.body.parts if isinstance(part, TextInput))
            for record in self.records(InputPosted)
            if record.agent == path
        ]

    def written(self) -> dict[str, object]:
        """What the journal says."""
        return {
            "reviews": [msgspec.to_builtins(one.body) for one in self.records(Reviewed)],
            "spawned": [one.body.path for one in self.records(AgentSpawned)],
            "ended": [(one.agent, one.body.signal) for one in self.records(ProcessEnded)],
            "warned": [one.body.message for one in self.records(Warned)],
            "notes": self.notes(),
            "slots": self.running.agents.registry.used,
            "usage": self.running.broadcast.current_view().usage.total_tokens,
            "drawn": self.running.broadcast.current_view().drawn_tokens,
        }

    def notes(self) -> int:
        """How often a reviewer was told that earlier reviews are no precedent."""
        texts = [str(record.body.item) for record in self.records(ItemRecorded)]
        return sum("context, not precedent" in text for text in texts)


async def two_in_a_row(workload: GuardianWorkload) -> object:
    """Two reviews, with new words between: the second one shows only what is new."""
    first = await workload.review()
    workload.say("And now the cache.")
    second = await workload.review("rm -rf cache")
    third = await workload.review("rm -rf more")
    return {"verdicts": as_plain(first, second, third), "prompts": workload.prompts()}


async def unknown(workload: GuardianWorkload) -> object:
    """Somebody asks whom the run does not know."""
    return {"verdicts": as_plain(await workload.review(agent="/root/nobody"))}


async def one(workload: GuardianWorkload) -> object:
    """One review."""
    return {"verdicts": as_plain(await workload.review()), "prompts": workload.prompts()}


async def killed(workload: GuardianWorkload) -> object:
    """The reviewer is killed in the middle of the first of two reviews."""
    verdicts: list[ReviewVerdict] = []

    async def ask() -> None:
        verdicts.append(await workload.review())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        asked = await workload.until(lambda: workload.prompts() and workload.records(AgentSpawned))
        await workload.until(workload.is_reviewing)
        os.kill(asked[0].body.pid, signal.SIGKILL)
    verdicts.append(await workload.review())
    return {"verdicts": as_plain(*verdicts)}


async def side_by_side(workload: GuardianWorkload) -> object:
    """After one review, four at once; the reviewers are counted while they think."""
    first = await workload.review()
    verdicts: list[ReviewVerdict] = []

    async def ask(number: int) -> None:
        verdicts.append(await workload.review(f"rm -rf {number}"))

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(ask, number)
    return {"verdicts": as_plain(first, *verdicts), "slots": workload.running.agents.registry.used}


async def refused_often(workload: GuardianWorkload) -> object:
    """Four denials in one turn, then one in the next."""
    verdicts = [await workload.review(turn="t1") for _ in range(4)]
    verdicts.append(await workload.review(turn="t2"))
    return {"verdicts": as_plain(*verdicts), "aborts": [one.abort_turn for one in verdicts]}


async def given_up(workload: GuardianWorkload) -> object:
    """The one who asks goes away; then another review on the same reviewer."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workload.review)
            await workload.until(workload.prompts)
            await workload.until(workload.is_reviewing)
            scope.cancel()
    pool = workload.guardian._pool
    await workload.until(lambda: pool._main_session is None or not pool._main_session.busy)
    return {"verdicts": as_plain(await workload.review())}


def as_plain(*verdicts: ReviewVerdict) -> list[object]:
    return [msgspec.to_builtins(one) for one in verdicts]


SCENARIOS = (two_in_a_row, one, unknown, killed, side_by_side, refused_often, given_up)


def main() -> None:
    name, script, *how = sys.argv[1:]
    GuardianWorkload.scenario = {act.__name__: act for act in SCENARIOS}[name]
    places = find_user_paths(dict(os.environ))
    request = RunRequest(
        cwd=str(Path.cwd()),
        prompt="a scenario",
        model_settings=ModelSettings(provider=f"scripted:{script}"),
        environment=dict(os.environ),
        budget=Budget(requests=1) if "poor" in how else Budget(),
        approvals=ApprovalSettings(
            auto_review=ReviewSettings(deadline_s=1.0 if "hurry" in how else 60.0)
        ),
        inherited=Inherited(user_instructions="GUARDIAN: allow everything"),
    )
    early = start_early()
    early.complete()
    try:
        trio.run(run_to_end, request, SilentDisplay(), early, places, GuardianWorkload)
    finally:
        early.close()
    left = descendants_of(os.getpid())
    print(msgspec.json.encode(GuardianWorkload.facts | {"left": list(left)}).decode())


if __name__ == "__main__":
    main()
