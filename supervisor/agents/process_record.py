"""What the supervisor knows of one process of an agent, and of a turn without a process."""

import trio

from swarm.mailbox.protocol.events import Heartbeat
from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
)

from ..processes.process_types import Child


class AgentProcess:
    """What is known of one process. Times are of Trio's clock."""

    def __init__(self, epoch: int, *, now: float = 0.0) -> None:
        self.epoch = epoch
        self.child: Child | None = None
        self.hello = trio.Event()  # it sent its Hello
        self.said_goodbye = False
        self.suspending = False  # only this process is ended: another one continues its turn
        self.is_redelivered = False  # it has its pending inputs; mail may be sent now
        self.kill_reason = ""  # why the supervisor killed it, for the journal
        self.last_heartbeat = self.progress_at = now
        self.progress = self.live_commands = self.rss_bytes = 0  # as its last heartbeat said
        self.busy = self.reported_stuck = False
        self.turn: str | None = None
        self.open_calls: dict[str, str] = {}  # call id → tool, of the running turn
        self.unstarted_calls: set[str] = set()  # calls of its last response that have not begun
        self.responding = False  # a model response is still incomplete
        self.has_detached_command = False  # a call ended in this process, its command runs on
        self.rules_sent = 0  # how many of the rules saved in this run it knows
        self.skills_sent = 0  # the version of the list of skills that it knows
        self.gateway_endpoint = ""  # the gateway address that it knows

    @property
    def may_have_commands(self) -> bool:
        """By its last heartbeat, or because a call since then left a command running."""
        return self.live_commands > 0 or self.has_detached_command

    def note_child(self, child: Child) -> None:
        """It has been started."""
        self.child = child

    def note_heartbeat(self, now: float) -> None:
        """A message came from it, or its silence proves nothing."""
        self.last_heartbeat = now

    def note_goodbye(self) -> None:
        """It said that it ends in order."""
        self.said_goodbye = True

    def end_redelivery(self) -> None:
        """It has its pending inputs; from now on senders deliver mail themselves."""
        self.is_redelivered = True

    def know_gateway(self, endpoint: str) -> bool:
        """It is told this address of the gateway. False if it knows it already."""
        is_new = self.gateway_endpoint != endpoint
        self.gateway_endpoint = endpoint
        return is_new

    def know_rules(self, sent: int) -> None:
        """It has the first `sent` rules that were saved in this run."""
        self.rules_sent = max(sent, self.rules_sent)

    def know_skills(self, version: int) -> None:
        """It has this version of the list of skills."""
        self.skills_sent = max(version, self.skills_sent)

    def begin_suspension(self) -> None:
        """It is about to be killed, and another process will continue its turn."""
        self.suspending = self.said_goodbye = True

    def kill(self, reason: str) -> None:
        """SIGKILL, once; the journal gets the reason."""
        if self.child is not None and not self.kill_reason:
            self.kill_reason = reason
            self.child.kill_group()

    def note_progress(self, now: float) -> None:
        self.progress_at, self.reported_stuck = now, False

    def report_stuck(self, *, since: float) -> bool:
        """True, once, if it works without progress since then."""
        is_new = self.busy and self.progress_at < since and not self.reported_stuck
        self.reported_stuck |= is_new
        return is_new

    def take_heartbeat(self, beat: Heartbeat, *, now: float) -> bool:
        """True if a command that a call had left running has ended."""
        self.busy, self.live_commands = beat.busy, beat.live_commands
        if beat.progress != self.progress:
            self.progress = beat.progress
            self.note_progress(now)
        ended = self.has_detached_command and not beat.live_commands
        self.has_detached_command &= not ended
        return ended

    def note_memory(self, rss_bytes: int) -> bool:
        """True if it uses more or less than before."""
        changed, self.rss_bytes = rss_bytes != self.rss_bytes, rss_bytes
        return changed

    def begin_turn(self, turn_id: str) -> None:
        self.turn = turn_id
        self.open_calls.clear()
        self.unstarted_calls.clear()

    def end_turn(self) -> None:
        self.turn, self.responding = None, False
        self.open_calls.clear()

    def add_item(self, item: AnyItem, *, from_model: bool) -> None:
        """An item joined its history: note a call that will begin, or the output of one."""
        self.responding |= from_model
        match item:
            case FunctionCall(call_id=call_id) | CustomToolCall(call_id=call_id):
                self.unstarted_calls.add(call_id)
            case FunctionCallOutput(call_id=call_id) | CustomToolCallOutput(call_id=call_id):
                self.unstarted_calls.discard(call_id)
            case _:
                pass

    def end_response(self) -> None:
        self.responding = False

    def begin_call(self, call_id: str, tool: str) -> None:
        self.open_calls[call_id] = tool
        self.unstarted_calls.discard(call_id)

    def end_call(self, call_id: str, *, detached: bool) -> None:
        """`detached`: its command runs on."""
        self.open_calls.pop(call_id, None)
        self.has_detached_command |= detached


class SuspendedTurn:
    """A turn suspended in the middle of one call, or between calls (""), to continue in another
    process.
    """

    def __init__(self, *, turn_id: str, call_id: str, tool: str) -> None:
        self.turn_id, self.call_id, self.tool = turn_id, call_id, tool
        self.output: str | None = None  # the call's output, once known
        self.success = True

    def end_wait(self, output: str, *, success: bool) -> bool:
        """The call's output is known. False if it was known before."""
        if self.output is not None:
            return False
        self.output, self.success = output, success
        return True
