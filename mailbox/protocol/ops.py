"""Ops: what the supervisor sends to an agent. One struct per verb, no flags."""

from typing import Literal

import msgspec

from ..parts.part_messages import PartOp
from .requests import AnyReply
from .server_sampling import SamplingTurn
from .settings import AgentSettings
from .values.base import Tagged, Value


class TextInput(Tagged, tag="text"):
    text: str


class ImageInput(Tagged, tag="image"):
    """An image already stored in the run's blobs."""

    image_url: str  # "blob:<sha256>;<mime>"
    name: str = ""


class SkillInput(Tagged, tag="skill"):
    """The instructions of a skill that the text beside it names."""

    name: str
    path: str  # of its SKILL.md
    text: str


class CommandInput(Tagged, tag="command"):
    """The command file whose text stands beside it, and the lines that the agent then runs."""

    name: str
    path: str
    typed: str  # the line that the person wrote
    lines: tuple[str, ...] = ()


UserInputPart = TextInput | ImageInput | SkillInput | CommandInput


class UserInput(Tagged):
    """Input from a person or the task file: it steers the running turn, or starts one."""

    input_id: str  # becomes the turn id if a turn is started; a repeated id is ignored
    parts: tuple[UserInputPart, ...]
    output_schema: bytes | None = None  # JSON text; the schema of the final answer


class Mail(Value):
    """A message between agents. `mail_id` is unique in the run. Journaled before delivery."""

    mail_id: str
    author: str  # agent path
    recipient: str
    content: str
    kind: Literal["new_task", "message", "followup", "final_answer"] = "message"
    trigger_turn: bool = False


class Deliver(Tagged):
    """Deliver mail; it joins the running turn or the next one, and may start one."""

    mail: Mail


class Notice(Tagged):
    """A notice from the supervisor to the model, before the next request. It starts no turn."""

    notice_id: str  # a repeated id is ignored
    text: str


class Interrupt(Tagged):
    """Abort the running turn; the agent stays. Its commands end, even if no turn runs."""

    reason: str = ""
    keep_commands: bool = False  # background commands keep running


class Compact(Tagged):
    """Compact the history before the next request, or now if no turn runs. Sent for a person."""


class UndoCompaction(Tagged):
    """Restore the items that a compaction replaced; later items stay.

    Refused with a `Warned` if the history no longer begins with the compaction's result:
    `base_count` items with chain digest `base_digest`.
    """

    compaction_id: str
    base_count: int
    base_digest: bytes
    items: tuple[msgspec.Raw, ...]  # msgpack items


class RollBackTurns(Tagged, tag="take_back"):
    """Roll back the last turns: these items become the history. `Warned` if a turn runs instead."""

    turns: int
    items: tuple[msgspec.Raw, ...]  # msgpack items


class ApplySettings(Tagged, tag="adopt"):
    """Use these settings from the next turn on; a running turn keeps its own."""

    settings: AgentSettings


class LearnRule(Tagged):
    """A person allowed all commands with this prefix, permanently: apply the rule from now on."""

    prefix: tuple[str, ...]
    exact: bool = False  # these words alone


class ListSkills(Tagged):
    """These skills are there from now on, one line each: the model is told with the next turn."""

    lines: tuple[str, ...] = ()


class Pause(Tagged):
    """Send no further request to the model; the current one finishes."""


class Continue(Tagged):
    """End the pause."""


class Shutdown(Tagged):
    """End in order: abort the turn, end commands, flush the mailbox, exit."""

    grace_s: float = 5.0
    run_ended: bool = False  # nobody stopped the turn: the run ends


class AskModel(Tagged):
    """An MCP server asks this agent's model. The answer is the request `ReportModelAnswer`."""

    question: int  # unique in the run's present process
    server: str
    turns: tuple[SamplingTurn, ...]
    system: str = ""
    max_tokens: int = 1_000


class WithdrawModelQuestion(Tagged):
    """Nobody waits for the answer to this question any more."""

    question: int


class AskPermissionHooks(Tagged):
    """A command of this agent wants to reach a host that needs an approval: what do hooks say?

    The answer is the request `ReportPermission`.
    """

    question: int  # unique in the run's present process
    command: str
    target: str  # "https://example.org:443"


class GatewayMoved(Tagged):
    """The gateway was restarted. Open samples are lost and may be requested again there."""

    endpoint: str
    token: bytes


class Answer(Tagged):
    """The supervisor's reply to one of the agent's requests."""

    request_id: int
    reply: AnyReply


AnyOp = (
    UserInput
    | Deliver
    | Notice
    | PartOp
    | Interrupt
    | Compact
    | UndoCompaction
    | RollBackTurns
    | ApplySettings
    | LearnRule
    | ListSkills
    | Pause
    | Continue
    | Shutdown
    | AskModel
    | WithdrawModelQuestion
    | AskPermissionHooks
    | GatewayMoved
    | Answer
)
encode_op = msgspec.msgpack.Encoder().encode
decode_op = msgspec.msgpack.Decoder(AnyOp).decode  # raises msgspec.ValidationError
