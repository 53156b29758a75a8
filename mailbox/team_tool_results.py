"""What a model reads when a call about its team has its answer: worded once.

The tool words it in the agent's process; for a turn that waits without one, the supervisor does.
"""

from collections.abc import Sequence

from .protocol.requests import Spawn, Spawned, Waited


def spawn_result(request: Spawn, spawned: Spawned, *, tells_wait: bool) -> dict[str, object]:
    """The sheet's two keys, and how its special wishes came out.

    Args:
        request: What was wished for.
        spawned: What came of it.
        tells_wait: Whether the time in the line for slots is worth a word.
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
    """The sheet's two keys, then what there is of news.

    Args:
        waited: The supervisor's reply.
        ends: How those that finished ended, each as it is shown.
        unread: Letters that the model will read with its next request.
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
