"""Batch jobs."""

from swarm.mailbox.protocol.requests import AnyReply, ReportJobResult, SpawnOnCsv

from ..control import Control
from ..running import Running
from .births import Births
from .inherit import NotPossible
from .team import Member, Team
from .verbs import Verbs


class Jobs:
    """Batch jobs."""

    def __init__(
        self, running: Running, control: Control, team: Team, births: Births, verbs: Verbs
    ) -> None:
        pass

    async def run(self, asker: Member, wish: SpawnOnCsv) -> AnyReply:
        raise NotPossible("not yet")

    def report(self, asker: Member, wish: ReportJobResult) -> AnyReply:
        raise NotPossible("not yet")
