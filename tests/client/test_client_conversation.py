from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.client_doubles import SOUND, VIDEO, packet, welcome

from reactor_trio.client.session_events import (
    Bye,
    CommandAnswered,
    Message,
    Queued,
    SessionResumed,
    StateChanged,
    TrackChanged,
)
from reactor_trio.client.session_protocol import MOST_SETS, MOST_SETTINGS, SessionProtocol
from reactor_trio.errors import CommandError, ProtocolError


def said(type_, data=None, **top):
    return json.dumps({"type": type_, "data": data or {}, **top})


def begun(*tracks) -> SessionProtocol:
    conversation = SessionProtocol()
    assert conversation.receive_text(said("reactor.welcome", welcome(*tracks), n=1), 0.0) is conversation.welcome
    return conversation


def test_a_session_from_queue_to_bye():
    conversation = SessionProtocol()
    assert conversation.receive_text(said("reactor.queued", {"position": 2, "total": 3}), 0.0) == Queued(2, 3)
    assert conversation.welcome is None
    conversation.receive_text(said("reactor.welcome", welcome(VIDEO, SOUND), n=1), 1.0)
    assert conversation.welcome.session_id == "s1"
    assert [track.name for track in conversation.tracks.values()] == ["main_video", "sound"]

    number, text = conversation.command("set_brightness", {"brightness": 0.5}, 2.0)
    assert json.loads(text) == {"type": "set_brightness", "data": {"brightness": 0.5}, "id": 1}
    assert number == 1
    assert conversation.command("reset", {}, 2.0)[0] == 2
    applied = conversation.receive_text(said("reactor.ack", {"step": 4, "reply": [1]}, id=1, n=2), 2.5)
    assert applied == CommandAnswered(1, [1], step=4)
    refusal = conversation.receive_text(said("reactor.error", {"code": "busy", "message": "no"}, id=2, n=3), 2.5)
    assert (refusal.id, refusal.error.code, str(refusal.error)) == (2, "busy", "no")

    assert conversation.receive_text(said("progress", {"done": 3}, n=4), 3.0) == Message("progress", {"done": 3}, 4)
    stray = conversation.receive_text(said("reactor.error", {"code": "protocol_error", "message": "?"}, n=5), 3.0)
    assert stray == Message("reactor.error", {"code": "protocol_error", "message": "?"}, 5)
    assert conversation.receive_text(said("reactor.of_version_2", n=6), 3.0) is None
    assert conversation.receive_text(said("reactor.bye", {"reason": "draining"}, n=7), 3.0) == Bye("draining")


def test_state_follows_the_servers_values_and_the_clients_applied_sets():
    conversation = SessionProtocol()
    state = conversation.state
    values = {"x": 0, "y": 1, "words": []}
    conversation.receive_text(said("reactor.welcome", {**welcome(), "state": values}, n=1), 0.0)
    assert state == values

    set_x, _ = conversation.command("set_x", {"x": 5}, 0.0)
    changed = conversation.receive_text(said("reactor.state", {"x": 3, "y": 2}, n=2), 0.0)  # older than the set
    assert (changed, state) == (StateChanged({"x": 3, "y": 2}), values | {"x": 3, "y": 2})
    conversation.receive_text(said("reactor.ack", {"step": 1}, id=set_x, n=3), 0.0)
    assert state == values | {"x": 5, "y": 2}
    conversation.receive_text(said("reactor.state", {"x": 4}, n=4), 0.0)  # it was clamped, say
    assert state == values | {"x": 4, "y": 2}

    refused, _ = conversation.command("set_y", {"y": 9}, 0.0)
    conversation.receive_text(said("reactor.error", {"code": "busy", "message": ""}, id=refused, n=5), 0.0)
    for name, arguments in (("set_volume", {"volume": 1}), ("set_y", {"value": 1}), ("y", {"y": 9})):
        other, _ = conversation.command(name, arguments, 0.0)
        conversation.receive_text(said("reactor.ack", {"step": 1}, id=other, n=5 + other), 0.0)
    assert state == values | {"x": 4, "y": 2}

    resumed = {**welcome(), "resumed": True, "state": {"x": 7}}
    welcomed = conversation.resumption(said("reactor.welcome", resumed, n=1))
    assert state == values | {"x": 4, "y": 2}
    assert conversation.resume(welcomed) == SessionResumed(0, values={"x": 7})
    assert state == {"x": 7}
    assert conversation.state is state


def test_an_older_server_sends_no_values():
    assert begun().state == {}


def test_malformed_values_are_refused():
    with pytest.raises(ProtocolError, match=r"reactor.state: Expected object, got array"):
        begun().receive_text(said("reactor.state", [1], n=2), 0.0)
    conversation = begun()
    conversation.receive_text(said("reactor.state", {str(number): 0 for number in range(MOST_SETTINGS)}, n=2), 0.0)
    conversation.receive_text(said("reactor.state", {"7": 1}, n=3), 0.0)
    with pytest.raises(ProtocolError, match=f"more than {MOST_SETTINGS} settings"):
        conversation.receive_text(said("reactor.state", {"another": 1}, n=4), 0.0)


def test_the_number_of_unanswered_sets_is_bounded():
    conversation = begun()
    for value in range(MOST_SETS + 10):
        conversation.command("set_x", {"x": value}, 0.0)
    assert len(conversation._sets) == MOST_SETS
    assert next(iter(conversation._sets)) == 11


def test_a_track_is_described_again_before_its_new_size():
    conversation = begun()
    small = conversation.receive_packet(packet(0), 0.0)
    changed = conversation.receive_text(said("reactor.track", VIDEO | {"width": 4}, n=2), 0.0)
    large = conversation.receive_packet(packet(1, b"\0" * 12), 0.0)
    assert isinstance(changed, TrackChanged)
    assert (small.track.width, large.track.width) == (2, 4)
    assert conversation.tracks[0].width == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a message of the protocol"),
        (said("reactor.ack", {"step": 1}), "reactor.ack without an id"),
        (said("reactor.ack", {}, id=1), "reactor.ack: Object missing required field step"),
        (said("reactor.error", {"code": 1}, id=1), r"reactor.error: Expected str, got int - at \$.code"),
        (said("reactor.welcome", welcome()), "a second reactor.welcome"),
        (said("reactor.bye", {}), "missing required field reason"),
    ],
)
def test_malformed_server_messages_are_protocol_errors(text, says):
    with pytest.raises(ProtocolError, match=says):
        begun().receive_text(text, 0.0)


def test_before_the_welcome_only_the_queue_and_the_end_may_come():
    with pytest.raises(ProtocolError, match=r"progress came before reactor\.welcome"):
        SessionProtocol().receive_text(said("progress"), 0.0)
    with pytest.raises(ProtocolError, match="packet of track 0, which was never described"):
        SessionProtocol().receive_packet(packet(0), 0.0)
    with pytest.raises(ProtocolError, match="the server speaks protocol 2, this client 1"):
        SessionProtocol().receive_text(said("reactor.welcome", welcome() | {"protocol": 2}), 0.0)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"x": math.nan}, "$.x"),
        ({"x": math.inf}, "$.x"),
        ({"x": {"y": [0.0, {"z": -math.inf}]}}, "$.x.y[1].z"),
        ({"x": np.float32("nan")}, "$.x"),
        ({"x": np.array([0.0, math.inf])}, "$.x[1]"),
    ],
)
def test_nan_and_infinities_are_refused(arguments, path):
    conversation = begun()
    with pytest.raises(CommandError, match="Expected a finite number") as caught:
        conversation.command("set_x", arguments, 0.0)
    assert caught.value.code == "invalid_command"
    assert str(caught.value).endswith(f" - at {path}")
    assert conversation.command("set_x", {"x": 1.0}, 0.0)[0] == 1


def test_numpy_arguments_are_converted_and_others_need_a_json_form():
    conversation = begun()
    _, text = conversation.command("set_x", {"x": np.float32(0.5), "y": np.arange(3), "name": "n"}, 0.0)
    assert json.loads(text)["data"] == {"x": 0.5, "y": [0, 1, 2], "name": "n"}
    with pytest.raises(TypeError, match="an argument of type object has no JSON form"):
        conversation.command("set_x", {"x": object()}, 0.0)


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_received_and_missing_add_up(kept):
    conversation = begun()
    for seq, keep in enumerate(kept):
        if keep:
            conversation.receive_packet(packet(seq), seq / 10)
    track = conversation.statistics(len(kept) / 10).tracks["main_video"]
    survivors = [seq for seq, keep in enumerate(kept) if keep]
    assert track.frames == len(survivors)
    assert track.missing == (survivors[-1] - survivors[0] + 1 - len(survivors) if survivors else 0)
    assert track.bytes == sum(len(packet(seq)) for seq in survivors)


def test_a_number_that_does_not_grow_is_not_a_gap():
    conversation = begun()
    for seq in (5, 6, 0, 1, 3):
        conversation.receive_packet(packet(seq), 0.0)
    assert conversation.statistics(0.0).tracks["main_video"].missing == 1


def test_rate_and_jitter_are_those_of_the_last_seconds_and_frames():
    conversation = begun()
    assert conversation.statistics(0.0).tracks["main_video"].fps == 0.0
    for seq in range(9):
        conversation.receive_packet(packet(seq), 1.0 + seq / 8)
    steady = conversation.statistics(2.0).tracks["main_video"]
    assert steady.fps == 8.0
    assert (steady.interval.count, steady.interval.std, steady.interval.p50) == (8, 0.0, 0.125)

    conversation.receive_packet(packet(9), 3.0)
    track = conversation.statistics(3.0).tracks["main_video"]
    assert track.fps == 4.5  # nine after the first, over two seconds
    assert track.interval.p50 == 0.125
    assert track.interval.std == pytest.approx(np.std([0.125] * 8 + [1.0]))
    assert conversation.statistics(4.5).tracks["main_video"].fps == 0.5
    assert conversation.statistics(5.0).tracks["main_video"].fps == 0.0
    for seq in range(10, 400):
        conversation.receive_packet(packet(seq), 5.0 + seq)
    assert conversation.statistics(405.0).tracks["main_video"].interval == (
        conversation.statistics(500.0).tracks["main_video"].interval
    )
    assert conversation.statistics(405.0).tracks["main_video"].interval.count == 300


def test_latency_to_the_ack_and_to_the_picture():
    conversation = begun()
    for at in (0.0, 1.0, 2.0):
        conversation.command("set_x", {}, at)
    conversation.receive_text(said("reactor.ack", {"step": 1}, id=1), 0.25)
    conversation.receive_text(said("reactor.error", {"code": "busy", "message": "no"}, id=2), 1.5)
    conversation.receive_text(said("reactor.ack", {"step": 3}, id=3), 2.75)
    conversation.receive_packet(packet(0), 2.8)
    assert conversation.statistics(3.0).command_to_picture.count == 0
    # The first frame at or after a command shows it; the refused second command shows in none.
    conversation.receive_packet(packet(1, command=3), 3.0)
    conversation.receive_packet(packet(2, command=3), 9.0)
    statistics = conversation.statistics(9.0)
    assert (statistics.command_to_ack.count, statistics.command_to_ack.p50) == (2, 0.5)
    assert (statistics.command_to_picture.count, statistics.command_to_picture.p50) == (2, 2.0)


def test_a_forgotten_command_is_in_no_figure():
    conversation = begun()
    number, _ = conversation.command("set_x", {}, 0.0)
    conversation.commands.forget(number)
    conversation.receive_text(said("reactor.ack", {"step": 1}, id=number), 5.0)
    conversation.receive_packet(packet(0, command=number), 5.0)
    statistics = conversation.statistics(5.0)
    assert statistics.command_to_ack.count == statistics.command_to_picture.count == 0


def test_a_repeated_message_is_taken_once():
    conversation = begun()
    text = said("progress", {"done": 1}, n=2)
    assert conversation.receive_text(text, 0.0) == Message("progress", {"done": 1}, 2)
    assert conversation.receive_text(text, 0.0) is None
    assert conversation.newest == 2
