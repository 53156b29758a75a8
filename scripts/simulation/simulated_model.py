"""The model of a simulated run: what it says next is read from the history, so no death loses a
step of it. It is a `ResponseSource` of the real gateway, behind the real retries and the real gate.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio
from simulated_scenario import AgentScript, PlannedCall, SimulatedScenario
from simulated_world import SimulatedWorld

from swarm.mailbox.protocol.items import (
    AnyItem,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    TokenUsage,
    text_of,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySpec, ProviderSpec
from swarm.worker.gateway.app import GatewayApp, GatewayDependencies
from swarm.worker.gateway.backend import (
    AttemptEvents,
    Failure,
    RenderedRequest,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseTextDelta,
    SampleError,
)
from swarm.worker.gateway.failures import FailureOrigin, classify_status
from swarm.worker.gateway.model_catalogue import load_catalogue
from swarm.worker.gateway.provider_choice import ProviderChoice
from swarm.worker.gateway.rate_limiter import RateLimiter
from swarm.worker.gateway.retry_policy import RetryingBackend

OpenGatewayApp = Callable[
    [GatewaySpec, GatewayDependencies], AbstractAsyncContextManager[GatewayApp]
]
MODEL = ModelInfo(
    slug="simulated", provider="simulated", wire="scripted",
    input_usd_per_million=1_000.0, output_usd_per_million=4_000.0,
)  # fmt: skip
_CATALOGUE = load_catalogue()
_MOST_TRIES = 40  # of a planned call; then the agent says that it gave up
_TOOLS = {
    "work": "work", "risky": "risky", "spawn": "spawn_agent", "wait": "wait_agent",
    "mail": "send_message", "again": "followup_task", "list": "list_agents",
    "close": "close_agent", "tell": "publish_finding", "sleep": "wake_me",
}  # fmt: skip


class SimulatedModel:
    """All agents' models."""

    def __init__(self, story: SimulatedScenario, world: SimulatedWorld) -> None:
        self._story, self._dice = story, world.rng_for("mind")
        self._calls = Counter[str]()
        self.gave_up: list[str] = []

    def answer(self, path: str, items: Sequence[AnyItem]) -> list[AnyItem]:
        """The items of the next response."""
        part = self._story.parts.get(path, AgentScript(path, ()))
        told = _outputs(items)
        for number, response in enumerate(part.responses):
            open_planned_calls = [
                (place, planned)
                for place, planned in enumerate(response)
                if not self._is_done(part, f"{path}:{number}.{place}:", planned, told)
            ]
            if open_planned_calls:
                return [
                    self._call(path, f"{path}:{number}.{place}:", planned)
                    for place, planned in open_planned_calls
                ]
        text = f"{path} is done"
        return [Message(role="assistant", content=(OutputText(text=text),))]

    def _is_done(
        self, part: AgentScript, prefix: str, planned: PlannedCall, told: dict[str, str]
    ) -> bool:
        tries = [text for call, text in told.items() if call.startswith(prefix)]
        if any(_fulfils(part, planned, text) for text in tries):
            return True
        if len(tries) >= _MOST_TRIES:
            if prefix not in self.gave_up:
                self.gave_up.append(f"{prefix} {planned.verb}: {tries[-1][:200]}")
            return True
        return False

    def _call(self, path: str, prefix: str, planned: PlannedCall) -> FunctionCall:
        self._calls[prefix] += 1
        name = planned.target
        arguments: dict[str, object]
        match planned.verb:
            case "work" | "risky":
                arguments = {"seconds": planned.seconds}
            case "spawn":
                turns = "all" if len(name) % 2 and self._story.seed % 3 == 0 else "none"
                arguments = {"task_name": name, "message": f"be {name}", "fork_turns": turns}
            case "wait":
                children = self._children(path)
                arguments = {"targets": children, "for": "all", "timeout_ms": 600_000}
            case "mail":
                arguments = {"target": name, "message": f"from {path}"}
            case "again":
                arguments = {"target": name, "message": "once more"}
            case "list":
                arguments = {}
            case "close":
                arguments = {"target": name}
            case "tell":
                arguments = {"fact": name}
            case "sleep":
                arguments = {"after_s": int(planned.seconds), "why": f"{path} looks again"}
        return FunctionCall(
            call_id=f"{prefix}{self._calls[prefix]}",
            name=_TOOLS[planned.verb],
            arguments=json.dumps(arguments),
        )

    def _children(self, path: str) -> list[str]:
        part = self._story.parts[path]
        return [planned.target for response in part.responses for planned in response
                if planned.verb == "spawn"]  # fmt: skip


def _outputs(items: Sequence[AnyItem]) -> dict[str, str]:
    return {one.call_id: text_of(one.output) for one in items
            if isinstance(one, FunctionCallOutput)}  # fmt: skip


def _fulfils(part: AgentScript, planned: PlannedCall, text: str) -> bool:
    """Whether this output means that the planned need not be tried again."""
    lost = "aborted" in text or "interrupted" in text
    match planned.verb:
        case "work":
            return text == "work ok"
        case "risky":
            return not lost
        case "spawn":
            return "task_name" in text or "already exists" in text
        case "wait":
            try:
                waited = json.loads(text)
            except ValueError:
                return False
            return not waited["timed_out"] and not waited.get("still_running")
        case "list":
            return text.startswith("{")  # in it may stand that another agent was interrupted
        case "mail" | "again" | "close":
            return not lost
        case "tell":
            return "published as #" in text or "known already: #" in text
        case "sleep":
            return " fires at " in text


class SimulatedSource:
    """One attempt; the seed may make it fail before, or in the middle of, its answer."""

    def __init__(
        self, mind: SimulatedModel, story: SimulatedScenario, world: SimulatedWorld
    ) -> None:
        self._mind, self._share, self._dice = mind, story.model_faults, world.rng_for("model")
        self._limits, self._unix_s = story.plan_limits, world.unix_s

    async def attempt(self, request: RenderedRequest) -> AttemptEvents:
        dice = self._dice
        pause_s, fails = dice.uniform(0.001, 2.0), dice.random() < self._share
        kind, tokens = dice.choice(("429", "500", "cut", "idle", "huge")), dice.randint(10, 400)
        await trio.sleep(pause_s)
        now = trio.current_time()
        for limit in self._limits:
            if limit.at <= now < limit.until:
                resets_at = self._unix_s() + limit.until - now
                text = "the plan's limit is reached"
                raise SampleError(
                    Failure(kind="usage_limit_exceeded", message=text, resets_at_unix_s=resets_at)
                )
        if fails and kind in {"429", "500"}:
            origin = FailureOrigin("simulated")
            raise SampleError(classify_status(int(kind), {}, b"{}", origin=origin))
        if fails and kind == "idle":
            await trio.sleep(60)
            raise SampleError(Failure(kind="idle_timeout", message="nothing came", retryable=True))
        for number, item in enumerate(self._mind.answer(request.agent_path, request.items)):
            name = f"{request.agent_path}#{request.ordinal}.{number}"
            yield ResponseItemStarted(
                item_id=name,
                kind="function_call" if isinstance(item, FunctionCall) else "message",
            )
            if isinstance(item, Message):
                much = "so it is. " * (150 << 10) if fails and kind == "huge" else ""
                yield ResponseTextDelta(item_id=name, text=much + text_of(item.content))
            yield ResponseItemDone(item=item)
            if fails:
                raise SampleError(
                    Failure(kind="stream_disconnected", message="it broke off", retryable=True)
                )
            await trio.sleep(pause_s / 10)
        usage = TokenUsage(input_tokens=tokens, output_tokens=7, total_tokens=tokens + 7)
        yield ResponseFinished(response_id=f"r{request.ordinal}", usage=usage)


def gateway_app_opener(
    mind: SimulatedModel, story: SimulatedScenario, world: SimulatedWorld
) -> OpenGatewayApp:
    """What stands for `open_gateway_app` of the gateway."""

    @asynccontextmanager
    async def open_app(spec: GatewaySpec, around: GatewayDependencies) -> AsyncIterator[GatewayApp]:
        provider = ProviderSpec(id="simulated", name="simulated", wire_api="scripted")
        choice = ProviderChoice(provider=provider, model=MODEL, why="it is simulated")
        gate = RateLimiter(announce=around.announce, noise=around.noise, unix_s=around.unix_s)
        around.add_limiter(gate)
        source = SimulatedSource(mind, story, world)
        yield GatewayApp(choice, RetryingBackend(source, gate, max_retries=4), _CATALOGUE)

    return open_app
