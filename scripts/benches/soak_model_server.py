"""A model server for the soak: one root that has a turn for each of its agents.

Run as the others: PORT-FILE TURNS. Each turn of the root runs a command, starts an agent, and
ends; the agent answers when the turn is over, and its mail wakes the root for the next one.
"""

import asyncio
import sys
from pathlib import Path

from model_server import serve_until_told
from team_model_server import Call, Story, TeamServer, part_of, spawn

_PAUSE_S = 0.02  # from the root's last words of a turn to its agent's: it has ended by then


class SoakScenario(Story):
    """The root's `turns` turns, then its answer."""

    def __init__(self, turns: int) -> None:
        self.turns, self.begun, self.over = turns, 0, 0
        self.has_asked = False  # for a command and an agent; the next request tells their outputs
        self.ended = asyncio.Event()

    def root(self, name: str, number: int) -> list[Call]:
        if self.has_asked:
            self.has_asked = False
            asyncio.get_running_loop().call_later(_PAUSE_S, self._end_turn)
            return []
        if self.begun == self.turns:
            return []
        self.begun, self.has_asked = self.begun + 1, True
        return [("exec_command", {"cmd": "true"}), spawn(f"a{self.begun}", "leaf")]

    def _end_turn(self) -> None:
        self.over = self.begun
        ended, self.ended = self.ended, asyncio.Event()
        ended.set()

    def leaf(self, name: str, number: int) -> list[Call]:
        return []

    head = leaf

    def may_answer(self, name: str, kind: str) -> bool:
        return kind == "leaf" and int(name[1:]) <= self.over


class SoakServer(TeamServer):
    """Agents wait for the end of the root's turn, not for a request of somebody."""

    async def answer(self, began: float, body: bytes, writer: asyncio.StreamWriter) -> None:
        kind, name = part_of(body)  # the root's body names its agents, too: it comes first
        while kind == "leaf" and not self.story.may_answer(name, kind):
            await self.story.ended.wait()
        await super().answer(began, body, writer)


async def main() -> None:
    await serve_until_told(SoakServer(SoakScenario(int(sys.argv[2]))), Path(sys.argv[1]))


if __name__ == "__main__":
    asyncio.run(main())
