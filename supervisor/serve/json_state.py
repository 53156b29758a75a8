"""What the JSON lines of a stream remember of the records before."""

from swarm.mailbox.protocol.items import TokenUsage

from .json_items import OpenItems
from .json_lines import AnyLine


class JsonAgent:
    """What later lines of one agent need."""

    def __init__(self) -> None:
        self.items = OpenItems()
        self.total = TokenUsage()
        self.context_tokens = self.context_window = 0
        self.usd: float | None = None
        self.notice = ""  # the last one, so that it is said once
        self.ended = False


class JsonState:
    """One stream's memory: two words for each agent that ended, more for those that live."""

    def __init__(self) -> None:
        self.run_id = ""
        self.started = False  # thread.started was said
        self.held: list[AnyLine] = []  # lines from before it
        self.agents: dict[str, JsonAgent] = {}
        self.paths: dict[str, str] = {}  # agent id → path
        self.spawned = 0
        self.root_error = ""
        self.throttle = ""
        self.fan_total = self.fan_done = self.fan_failed = 0

    def agent(self, path: str) -> JsonAgent:
        return self.agents.setdefault(path, JsonAgent())
