"""Results of the team tools, as the model reads them.

The tool in the agent's process builds them; for a turn that waits without a tool, the supervisor
does.
"""

from collections.abc import Sequence

from ..protocol.requests import Spawn, Spawned, Waited


def spawn_result(request: Spawn, spawned: Spawned, *, tells_wait: bool) -> dict[str, object]:
    """The two keys of Codex's answer, and the model and effort if the call asked for them.

    Args:
        request: The request.
        spawned: Its reply.
        tells_wait: Whether to report the time spent waiting for a slot.
    """
    answer: dict[str, object] = {"task_name": spawned.path, "nickname": spawned.nickname}
    if request.model is not None:
        answer["model"] = spawned.model
    if request.reasoning_effort is not None:
        answer["reasoning_effort"] = spawned.effort
    if tells_wait:
        answer["waited_for_slot_s"] = round(spawned.waited_s, 1)
    return answer


def wait_result(waited: Waited, *, ends: Sequence[object], unread: int) -> dict[str, object]:
    """The two keys of Codex's answer, then any news.

    Args:
        waited: The supervisor's reply.
        ends: How the finished agents ended, each as it is shown.
        unread: Number of mails that the model will read with its next request.
    """
    answer: dict[str, object] = {
        "message": "Wait timed out." if waited.timed_out else "Wait completed.",
        "timed_out": waited.timed_out,
    }
    if ends:
        answer["finished"] = ends
    if waited.still_running:
        answer["still_running"] = waited.still_running
    if unread:
        answer["unread_messages"] = unread
    return answer
