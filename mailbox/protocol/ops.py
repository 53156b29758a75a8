"""What an agent may be asked to do. One struct per verb, no flags."""

from typing import Literal

import msgspec

from .base import Tagged, Value
from .requests import AnyReply
from .settings import AgentSettings


class TextInput(Tagged, tag="text"):
    text: str


class ImageInput(Tagged, tag="image"):
    """An image already stored in the run's blobs."""

    image_url: str  # "blob:<sha256>;<mime>"
    name: str = ""


UserInputPart = TextInput | ImageInput


class UserInput(Tagged):
    """A person's (or the task file's) words: steer the running turn, or start one."""

    input_id: str  # becomes the turn id if a turn is started; admitted once
    parts: tuple[UserInputPart, ...]
    output_schema: bytes | None = None  # JSON text; asked of the final answer


class Mail(Value):
    """A letter between agents. `mail_id` is unique in the run; it is journaled before delivery."""

    mail_id: str
    author: str  # agent path
    recipient: str
    content: str
    kind: Literal["new_task", "message", "followup", "final_answer"] = "message"
    trigger_turn: bool = False


class Deliver(Tagged):
    """Hand over a letter; it joins the turn or the next one, and may start one."""

    mail: Mail


class Notice(Tagged):
    """A word of the supervisor to the model: it stands before the next request, and starts none."""

    notice_id: str  # admitted once
    text: str


class Interrupt(Tagged):
    """Abort the running turn; the agent stays. Its commands end, also when no turn runs."""

    reason: str = ""
    keep_commands: bool = False  # those that run in the background go on


class Compact(Tagged):
    """A person wants the history shortened: before the next request, or now if no turn runs."""


class UndoCompaction(Tagged):
    """Put back what stood before a compaction; what came after it stays.

    Refused, by a `Warned`, if the history no longer begins with what that compaction left: so many
    items, with this chain digest.
    """

    compaction_id: str
    base_count: int
    base_digest: bytes
    items: tuple[msgspec.Raw, ...]  # msgpack items


class RollBackTurns(Tagged, tag="take_back"):
    """Forget the last turns: the history is these items again. A `Warned` if one runs instead."""

    turns: int
    items: tuple[msgspec.Raw, ...]  # msgpack items


class ApplySettings(Tagged, tag="adopt"):
    """Work like this from the next turn on; a turn that runs ends as it began."""

    settings: AgentSettings


class LearnRule(Tagged):
    """A person allowed commands that begin with these words for ever: judge by that from now."""

    prefix: tuple[str, ...]


class Pause(Tagged):
    """Make no further request to the model; what runs comes to its end."""


class Continue(Tagged):
    """The pause is over."""


class Shutdown(Tagged):
    """End in order: abort the turn, end commands, flush the post, leave."""

    grace_s: float = 5.0


class GatewayMoved(Tagged):
    """The gateway was started anew; open samples are lost and may be asked again there."""

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
    | Interrupt
    | Compact
    | UndoCompaction
    | RollBackTurns
    | ApplySettings
    | LearnRule
    | Pause
    | Continue
    | Shutdown
    | GatewayMoved
    | Answer
)
encode_op = msgspec.msgpack.Encoder().encode
decode_op = msgspec.msgpack.Decoder(AnyOp).decode  # raises msgspec.ValidationError
