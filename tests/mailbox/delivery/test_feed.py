"""The watchers' feed over ipc."""

import trio

from swarm.mailbox.delivery.envelope import FRAME_BYTES
from swarm.mailbox.delivery.feed import QUEUE_MESSAGES, open_feed, open_feed_reader


async def test_a_reader_receives_everything_published_after_it_joined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with trio.fail_after(10):
        async with open_feed("ipc://feed") as feed, open_feed_reader("ipc://feed") as reader:
            feed.publish(b"perhaps too early")
            last = await reader.wait_joined()
            for number in range(50):
                feed.publish(b"%d" % number)
            got = [await reader.receive() for _ in range(50)]
            assert got == [(last + 1 + number, b"%d" % number) for number in range(50)]


async def test_publishing_without_watchers_only_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with trio.fail_after(10):
        async with open_feed("ipc://feed") as feed:
            assert feed.watchers == 0
            for _ in range(5):
                feed.publish(b"to nobody")
            async with open_feed_reader("ipc://feed") as reader:
                assert await reader.wait_joined() == 5


async def test_watchers_are_counted_as_they_come_and_go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with trio.fail_after(10):
        async with open_feed("ipc://feed") as feed:
            async with open_feed_reader("ipc://feed") as one:
                await one.wait_joined()
                async with open_feed_reader("ipc://feed") as two:
                    await two.wait_joined()
                    assert feed.watchers == 2
                while feed.watchers == 2:
                    await trio.lowlevel.checkpoint()
                assert feed.watchers == 1
            while feed.watchers:
                await trio.lowlevel.checkpoint()


async def test_a_slow_reader_loses_messages_sees_the_gap_and_costs_no_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with trio.fail_after(30):
        async with open_feed("ipc://feed") as feed, open_feed_reader("ipc://feed") as reader:
            before = await reader.wait_joined()
            for _ in range(20 * QUEUE_MESSAGES):
                feed.publish(b"x" * 2000)
            numbers = [before]
            while len(numbers) == 1 or numbers[-1] == numbers[-2] + 1:
                numbers.append((await reader.receive())[0])
                feed.publish(b"still going")
            assert numbers[-1] > numbers[-2] + 1


async def test_a_body_over_the_limit_leaves_a_hole_in_the_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with trio.fail_after(10):
        async with open_feed("ipc://feed") as feed, open_feed_reader("ipc://feed") as reader:
            last = await reader.wait_joined()
            feed.publish(b"x" * (FRAME_BYTES + 1))
            feed.publish(b"")
            feed.publish(b"next")
            assert await reader.receive() == (last + 3, b"next")
