"""Where a bound holds, nothing is sent ungranted, and each reservation ends with one word."""

from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.contents.credentials import make_proof
from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.protocol.gateway import (
    Granted,
    NotGranted,
    ReservationReleased,
    Reserve,
    ResponseBilled,
    decode_gateway_event,
)
from swarm.mailbox.protocol.items import FunctionCall, TokenUsage, encode_item, text_message
from swarm.mailbox.protocol.sampling import (
    CancelSample,
    ModelInfo,
    OpenConversation,
    SampleCompleted,
    SampleFailed,
    SampleRequest,
    SampleWaiting,
    ToolSpec,
    decode_sample_event,
    encode_sample_op,
)
from swarm.mailbox.protocol.spec import GatewaySettings, GatewaySpec, ProviderSpec
from swarm.worker.gateway.agent_sessions import AgentSessions
from swarm.worker.gateway.app import GatewayApp
from swarm.worker.gateway.backend import Failure, ResponseFinished, ResponseTextDelta, SampleError
from swarm.worker.gateway.budget_reservations import OutputMargin, TokenTally
from swarm.worker.gateway.model_catalogue import load_catalogue
from swarm.worker.gateway.provider_choice import ProviderChoice

RUN_KEY = b"k" * 32
MODEL = ModelInfo(
    slug="m", provider="p", wire="scripted", input_usd_per_million=2.0, output_usd_per_million=8.0
)
USAGE = TokenUsage(input_tokens=1000, output_tokens=500, total_tokens=1500)
REFUSED = SampleError(Failure(kind="overloaded", message="no"))


class Told:
    """A backend that says what it was given."""

    def __init__(self):
        self.requests, self.answers = [], []

    async def sample(self, request):
        self.requests.append(request)
        for step in self.answers.pop(0):
            if isinstance(step, Exception):
                raise step
            if isinstance(step, float):
                await trio.sleep(step)
            else:
                yield step


class Floor:
    """A gateway, the supervisor's mailbox, and one agent that has opened its conversation."""

    def __init__(self, sessions, told, above, mailbox):
        self.sessions, self.told, self._above, self._mailbox = sessions, told, above, mailbox
        self.reservations = sessions.reservations
        self._numbers = 0

    async def ask(self, text="hi"):
        self._numbers += 1
        item = msgspec.Raw(encode_item(text_message("user", text)))
        request = SampleRequest(
            request_id=self._numbers, turn_id="t", instructions="i" * 400, items=(item,)
        )
        await self._mailbox.post(encode_sample_op(request))

    async def cancel(self):
        await self._mailbox.post(encode_sample_op(CancelSample(request_id=self._numbers)))

    async def word(self):
        """The next word to the supervisor."""
        with trio.fail_after(30):
            message = await self._above.receive()
        self._above.acknowledge(message)
        return decode_gateway_event(message.body)

    async def silence(self):
        """Nothing more is said to the supervisor."""
        with trio.move_on_after(5):
            pytest.fail(f"a word too many: {await self._above.receive()}")

    async def answer(self):
        """The last event of a response."""
        while True:
            message = await self._mailbox.receive()
            self._mailbox.acknowledge(message)
            event = decode_sample_event(message.body)
            if isinstance(event, SampleCompleted | SampleFailed | SampleWaiting):
                return event


@asynccontextmanager
async def open_floor(*, asks=True, model=MODEL):
    told = Told()
    provider = ProviderSpec(id="p", name="P", wire_api=model.wire)
    app = GatewayApp(ProviderChoice(provider=provider, model=model, why=""), told, load_catalogue())
    spec = GatewaySpec(
        run_id="r",
        epoch=7,
        endpoint="",
        identity=b"g/1",
        secret=b"",
        bind="",
        run_key=RUN_KEY,
        blobs_dir="/nowhere",
        models_dir="/nowhere",
        settings=GatewaySettings(),
        asks_first=asks,
    )
    async with open_pair_server() as server, open_pair_server() as above:
        above.admit(b"g/1", epoch=1)
        sessions = AgentSessions(app, spec, above.connect(b"g/1", epoch=1), Redactor([]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sessions.serve, server)
            server.admit(b"a/a1/1", epoch=1)
            mailbox = server.connect(b"a/a1/1", epoch=1)
            token = make_proof(RUN_KEY, b"a/a1/1", purpose="gateway")
            opening = OpenConversation(token=token, agent_id="a1", agent_path="/root")
            await mailbox.post(encode_sample_op(opening))
            yield Floor(sessions, told, above, mailbox)
            nursery.cancel_scope.cancel()


async def test_without_a_bound_nothing_is_asked(autojump_clock):
    async with open_floor(asks=False) as floor:
        floor.told.answers = [[ResponseFinished(usage=USAGE)]]
        await floor.ask()
        assert isinstance(await floor.answer(), SampleCompleted)
        assert await floor.word() == ResponseBilled(
            agent_id="a1", provider="p", model="m", usage=USAGE, usd=0.006
        )
        await floor.silence()


async def test_nothing_is_sent_before_it_is_granted_and_the_bill_names_the_grant(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[ResponseFinished(usage=USAGE)]]
        await floor.ask()
        asked = await floor.word()
        assert isinstance(asked, Reserve)
        assert (asked.agent_id, asked.reservation, asked.worked) == ("a1", "7-1", False)
        assert asked.tokens > 1_100  # 400 bytes of instructions, an item, and the margin
        assert asked.usd == pytest.approx((asked.tokens - 1_000) * 2e-6 + 1_000 * 8e-6)
        await trio.testing.wait_all_tasks_blocked()
        assert floor.told.requests == []
        floor.reservations.decide(Granted(reservation="7-1"))
        assert isinstance(await floor.answer(), SampleCompleted)
        bill = await floor.word()
        assert isinstance(bill, ResponseBilled)
        assert bill.reservation == "7-1"
        await floor.silence()


@pytest.mark.parametrize("ask_again", [True, False])
async def test_what_is_not_granted_fails_unsent_and_says_whether_one_more_is(
    autojump_clock, ask_again
):
    async with open_floor() as floor:
        await floor.ask()
        await floor.word()
        no = NotGranted(reservation="7-1", reason="used up", ask_again=ask_again)
        floor.reservations.decide(no)
        assert await floor.answer() == SampleFailed(
            request_id=1, kind="refused_budget", message="used up", retryable=ask_again
        )
        assert floor.told.requests == []
        await floor.silence()


async def test_a_request_given_up_while_it_waits_costs_nothing(autojump_clock):
    async with open_floor() as floor:
        await floor.ask()
        await floor.word()
        await floor.cancel()
        assert await floor.word() == ReservationReleased(agent_id="a1", reservation="7-1")
        floor.reservations.decide(Granted(reservation="7-1"))  # too late
        await floor.silence()
        assert floor.told.requests == []


async def test_a_server_that_refuses_charges_a_request_and_no_tokens(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[REFUSED]]
        await floor.ask()
        await floor.word()
        floor.reservations.decide(Granted(reservation="7-1"))
        assert await floor.word() == ReservationReleased(
            agent_id="a1", reservation="7-1", requests=1
        )


@pytest.mark.parametrize(
    "answer",
    [
        [ResponseTextDelta(item_id="x", text="w" * 400), 99.0],
        [ResponseTextDelta(item_id="x", text="w" * 400), REFUSED],
        [ResponseTextDelta(item_id="x", text="w" * 400), ResponseFinished()],
    ],
    ids=["cancelled", "broken", "without usage"],
)
async def test_an_answer_that_is_never_billed_counts_its_input_and_what_arrived(
    autojump_clock, answer
):
    async with open_floor() as floor:
        floor.told.answers = [answer]
        await floor.ask()
        asked = await floor.word()
        floor.reservations.decide(Granted(reservation="7-1"))
        await trio.testing.wait_all_tasks_blocked()
        await floor.cancel()
        lapsed = await floor.word()
        assert isinstance(lapsed, ReservationReleased)
        assert (lapsed.tokens, lapsed.requests) == (asked.tokens - 1_000 + 100, 1)
        assert lapsed.usd > 0
        await floor.silence()


async def test_the_end_of_an_agent_ends_its_reservation(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[99.0]]
        await floor.ask()
        asked = await floor.word()
        floor.reservations.decide(Granted(reservation="7-1"))
        await trio.testing.wait_all_tasks_blocked()
        floor.sessions.forget_agent("a1", 1)
        lapsed = await floor.word()
        assert (lapsed.tokens, lapsed.requests) == (asked.tokens - 1_000, 1)


async def test_an_agent_without_a_bound_asks_once_until_one_holds(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[ResponseFinished(usage=USAGE)] for _ in range(3)]
        await floor.ask()
        await floor.word()
        floor.reservations.decide(Granted(reservation="7-1", bounded=False))
        assert isinstance(await floor.answer(), SampleCompleted)
        assert (await floor.word()).reservation == ""
        await floor.ask()
        assert isinstance(await floor.answer(), SampleCompleted)
        assert isinstance(await floor.word(), ResponseBilled)
        floor.reservations.ask_first()
        await floor.ask()
        assert isinstance(await floor.word(), Reserve)


async def test_who_waits_for_what_others_hold_is_told_and_keeps_waiting(autojump_clock):
    async with open_floor() as floor:
        floor.told.answers = [[ResponseFinished(usage=USAGE)]]
        await floor.ask()
        await floor.word()
        for _ in range(3):
            assert isinstance(await floor.answer(), SampleWaiting)
        floor.reservations.decide(Granted(reservation="7-1"))
        assert isinstance(await floor.answer(), SampleCompleted)


async def test_an_unknown_price_is_said_as_none(autojump_clock):
    unpriced = msgspec.structs.replace(MODEL, input_usd_per_million=None)
    async with open_floor(model=unpriced) as floor:
        await floor.ask()
        assert (await floor.word()).usd is None


def request_of(*items, base_count=0, tools=()):
    raws = tuple(msgspec.Raw(encode_item(item)) for item in items)
    return SampleRequest(
        request_id=1, turn_id="t", instructions="i" * 40, items=raws, base_count=base_count,
        tools=tools,
    )  # fmt: skip


def test_an_estimate_counts_what_the_server_counted_and_what_is_new():
    tally = TokenTally(OutputMargin(first_tokens=300, least_tokens=50, factor=2.0))
    tools = (ToolSpec(name="t", description="d" * 40, parameters=b"{}" * 20),)
    first = tally.note_request(request_of(text_message("user", "w" * 400), tools=tools))
    assert 130 <= first <= 160
    assert tally.output_tokens == 300
    assert not tally.worked
    tally.note_usage(TokenUsage(input_tokens=5_000, output_tokens=80, total_tokens=5_080))
    assert tally.worked
    assert tally.output_tokens == 160
    new = tally.note_request(request_of(text_message("user", "w" * 400), base_count=2))
    assert 5_180 <= new <= 5_220


@pytest.mark.parametrize(
    ("item", "worked"),
    [
        (text_message("user", "x"), False),
        (text_message("developer", "x"), False),
        (text_message("assistant", "x"), True),
        (msgspec.structs.replace(text_message("assistant", "mail"), author="/root/b"), False),
        (FunctionCall(call_id="1", name="n", arguments="{}"), True),
    ],
)
def test_who_has_answers_in_its_history_has_worked(item, worked):
    tally = TokenTally(OutputMargin())
    tally.note_request(request_of(item))
    assert tally.worked == worked
