"""Messages of the model, and their order among the frames."""

from __future__ import annotations

import pytest
import trio

from reactor_trio.client import Message
from reactor_trio.client.session_view import internals
from reactor_trio.interface import ClientInfo, ModelMessage, ReactorModel, ReactorPipeline, connected, event
from reactor_trio.testing import open_server, open_session
from tests.support.behaviour_models import in_all_placements, picture
from tests.support.models import Picture


class HTTPStatusUpdate(ModelMessage):
    code: int


class Progress(ModelMessage):
    done: int


class Quiet(ReactorModel):
    @event
    async def tell(self, code: int):
        await self.send(HTTPStatusUpdate(code))

    @event
    async def many(self, count: int):
        for number in range(count):
            await self.send(Progress(number))

    @event
    async def whisper(self, client: ClientInfo, code: int):
        await client.send(HTTPStatusUpdate(code))


def wire_order(client, number_of=lambda message: message.data["done"]):
    """What arrives at `client` from now on, in order: the model's messages and frames with their numbers."""
    order = []
    conversation = internals(client).receiver.protocol
    receive_text, receive_packet = conversation.receive_text, conversation.receive_packet

    def text(data, now):
        message = receive_text(data, now)
        if isinstance(message, Message):
            order.append(("message", number_of(message)))
        return message

    def packet(data, now):
        received = receive_packet(data, now)
        order.append(("frame", received.packet.seq))
        return received

    conversation.receive_text, conversation.receive_packet = text, packet
    return order


@in_all_placements
async def test_the_wire_type_is_the_class_name_in_snake_case(autojump_clock, placement):
    placement = {} if placement == {"thread": True} else placement
    async with open_session(Quiet, **placement) as client:
        await client.command("tell", code=404)
        message = await client.next_message()
        assert (message.type, message.data) == ("http_status_update", {"code": 404})
        assert [schema["name"] for schema in client.schema["messages"]] == ["http_status_update", "progress"]


@in_all_placements
async def test_a_message_sent_before_a_yield_arrives_before_its_frame(autojump_clock, placement):
    class Reports(ReactorPipeline):
        output: Picture
        fps = 10

        async def inference(self):
            number = 0
            while True:
                await self.send(Progress(number))
                yield picture(number % 256)
                number += 1

    async with open_session(Reports, step_cost=0.01, **placement) as client:
        await client.take(1)
        order = wire_order(client)
        await client.take(12)
    frames = [number for kind, number in order if kind == "frame"]
    before_the_tap = [number for number in frames if ("message", number) not in order]
    assert before_the_tap == frames[: len(before_the_tap)]
    assert len(before_the_tap) <= 3
    for number in frames[len(before_the_tap) :]:
        assert order.index(("message", number)) < order.index(("frame", number))


@pytest.mark.parametrize("websocket", [False, True])
async def test_messages_and_frames_keep_their_order_on_a_slow_socket(autojump_clock, websocket):
    """While the client does not read, messages and frames pile up at different places; the order holds."""

    class Reports(ReactorPipeline):
        output: Picture
        fps = 10

        async def inference(self):
            for number in range(1000):
                await self.send(Progress(number))
                yield picture(number % 256)

    async with open_session(Reports, step_cost=0.01, websocket=websocket) as client:
        await client.take(1)
        client.stall()
        await trio.sleep(5)
        client.resume()
        frames = await client.take(10)
        told = [(await client.next_message()).data["done"] for _ in range(frames[-1].step + 1)]
    assert told == list(range(frames[-1].step + 1)), "no message is lost, whatever became of the frames"
    assert frames[0].seq > 30, "frames were"


async def test_messages_of_one_sender_arrive_in_order(autojump_clock):
    async with open_session(Quiet) as client:
        await client.command("many", count=300)
        told = [(await client.next_message()).data["done"] for _ in range(300)]
        assert told == list(range(300))


@in_all_placements
async def test_a_message_for_one_client_reaches_no_other(autojump_clock, placement):
    placement = {} if placement == {"thread": True} else placement
    async with open_server(Quiet, **placement) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await client.command("tell", code=1)
            await client.command("whisper", code=2)
            await client.command("tell", code=3)
            assert [(await client.next_message()).data["code"] for _ in range(3)] == [1, 2, 3]
            assert [(await viewer.next_message()).data["code"] for _ in range(2)] == [1, 3]
            with trio.move_on_after(10) as waiting:
                await viewer.next_message()
            assert waiting.cancelled_caught


async def test_the_server_sends_nothing_to_a_client_that_has_left(autojump_clock):
    class Remembers(ReactorModel):
        def load(self, config):
            self.known = []

        @connected
        async def request(self, client: ClientInfo):
            self.known.append(client)
            await self.known[0].send(HTTPStatusUpdate(200))

    async with open_server(Remembers) as server:
        async with server.connect() as first:
            assert (await first.next_message()).data == {"code": 200}
        async with server.connect() as second:
            with trio.move_on_after(10) as waiting:
                await second.next_message()
            assert waiting.cancelled_caught
        assert len({client.id for client in server.model.known}) == 2


async def test_sending_an_object_that_is_not_a_message_is_a_type_error(autojump_clock):
    class Wrong(ReactorModel):
        async def run(self):
            with pytest.raises(TypeError, match="ModelMessage"):
                await self.send({"type": "progress"})
            with pytest.raises(TypeError, match="progress"):
                await self.send(Progress(object()))
            self.refused = True
            await trio.sleep_forever()

    async with open_server(Wrong) as server:
        await trio.sleep(1)
        assert server.model.refused
