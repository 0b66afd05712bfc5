"""What the clients of a soak do: each function is one client's whole life, from its first byte to its last.

A function takes a `Door`, which knows the server, the books and the client's dice, and returns when its sockets are closed.
`Refused` and what it did to itself are its own affair; any other end is a fault, and `Door.live` writes it down.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

from reactor_trio.protocol import Packet, encode_packet
from tests.soak import secret_model
from tests.soak.cycling import before_welcome, in_mid_forward, with_commands_in_flight
from tests.soak.ledger import Ledger
from tests.soak.visits import Refused, Visit
from tests.support.fault_peers import BINARY, TEXT, Gone, RawClient, frame

#: codecs, and how often each is asked for
CODECS = {"raw": 34, "jpeg": 34, "h264": 16, "vp8": 6, "vp9": 5, "lossless": 3, "av1": 2}
SOUNDS = {"none": 8, "pcm_s16le": 2, "opus": 1}
TOO_BIG = 256 * 1024 + 1
#: seconds after which a client that reads nothing has been closed: the soak's server gives it 2 once the buffers are full
STALL_ENDS = 4.0

KILLED = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(sys.argv[2].encode() + b"\\r\\n\\r\\n")
while s.recv(65536):
    sys.stdout.write("."); sys.stdout.flush()
"""


class Door:
    """One client's way to the server.

    Args:
        codecs: those that the server encodes.
    """

    def __init__(self, port: int, ledger: Ledger, codecs: set[str], dice: Random, number: int) -> None:
        self.port, self.ledger, self.dice, self.number = port, ledger, dice, number
        self._codecs = {name: often for name, often in CODECS.items() if name in codecs}
        self._sounds = {name: often for name, often in SOUNDS.items() if name in codecs | {"none"}}

    def codec(self) -> str:
        """A codec for video."""
        return self.dice.choices([*self._codecs], [*self._codecs.values()])[0]

    def path(self, **query: str) -> str:
        """Where a client with random wishes connects; `query` replaces them."""
        wishes = {"video": self.codec(), "audio": self.dice.choices([*self._sounds], [*self._sounds.values()])[0]} | query
        return "/ws?" + "&".join(f"{name}={value}" for name, value in wishes.items())

    def connect(self, *, receive: int = 0, **query: str) -> Visit:
        """A controlling client on its way to a session."""
        return Visit(self.port, self.path(**query), self.ledger, self.dice, self.number, receive=receive)

    def view(self, share_token: str | None = None, *, receive: int = 0, number: int | None = None) -> Visit:
        """A viewer, of the session that runs or of that with the token."""
        query = {"role": "viewer"} | ({"token": share_token} if share_token else {})
        return Visit(
            self.port, self.path(**query), self.ledger, self.dice, self.number if number is None else number, receive=receive
        )

    def vanish(self, client: RawClient) -> None:
        """Be gone without a goodbye, by a reset or by the end of the stream."""
        if self.dice.random() < 0.6:
            client.vanish()
        else:
            client.socket.close()

    def upload(self, token: str, content: bytes, *, said: int | None = None) -> RawClient:
        """Begin an upload that is announced as `said` bytes, and send `content`."""
        client = RawClient(self.port, upgrade=False)
        size = len(content) if said is None else said
        client.send(
            f"POST /uploads?name=secret.txt&mime_type=text/plain HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            f"authorization: Bearer {token}\r\ncontent-length: {size}\r\n\r\n".encode(),
            content,
        )
        return client

    def live(self, behaviour: Behaviour) -> None:
        """One client's life; what ends it otherwise than it meant to is a problem."""
        self.ledger.kind(behaviour.__name__)
        where = f"client {self.number} ({behaviour.__name__})"
        try:
            behaviour(self)
        except Refused:
            self.ledger.count("refused for want of room")
        except Gone as gone:
            self.ledger.problem("sessions ended by the server", f"{where}: {gone}")
        except TimeoutError as error:
            self.ledger.problem("clients that waited in vain", f"{where}: {error}")
        except (AssertionError, OSError, KeyError, ValueError, RuntimeError, StopIteration) as error:
            self.ledger.problem("clients that failed", f"{where}: {type(error).__name__}: {error}")


Behaviour = Callable[[Door], None]


def _in_session(door: Door, **query: str) -> Visit:
    """Somebody who has told its secret and seen it."""
    visit = door.connect(**query)
    visit.enter()
    watches = query.get("video") != "none"
    if watches and door.dice.random() < 0.5:
        visit.watch(1)  # a picture with nobody's secret
    visit.tell_secret()
    visit.settle()
    if watches:
        visit.watch(1 + door.dice.randrange(3))
    return visit


# ---- with good manners ------------------------------------------------------------------------------------------------


def polite(door: Door) -> None:
    """Comes, tells its secret, watches and says goodbye."""
    _in_session(door).leave()


def control_only(door: Door) -> None:
    """Watches nothing."""
    with _in_session(door, video="none", audio="none") as visit:
        visit.leave()


def acknowledging(door: Door) -> None:
    """Says what it has shown, so that the server keeps a window for it."""
    with door.connect(feedback="1") as visit:
        visit.enter()
        visit.tell_secret()
        main = visit.track("out", "video")
        for seq in range(4):
            visit.watch(1)
            visit.say("reactor.feedback", track=main, seq=seq, held_us=1000)
        visit.leave()


def talkative(door: Door) -> None:
    """Changes its secret, and says much between: good, wrong, and what fails."""
    with _in_session(door) as visit:
        for _ in range(2):
            said = [visit.command("set_level", level=door.dice.randint(-50, 300)) for _ in range(door.dice.randrange(8))]
            said += [visit.command("raises"), visit.command("no_such_command"), visit.command("set_secret", secret="x" * 17)]
            visit.tell_secret()
            whose = visit.command("whose")
            visit.settle()
            own = f"{visit.sets[-1][1]:016x}"
            if (reply := visit.reply(whose)["data"]["reply"]) != own:
                visit.check([], None, int(reply or "0", 16), "a reply")
            kinds = [visit.answers[id_]["type"] for id_ in said[-3:]]
            assert kinds == ["reactor.error"] * 3, kinds
            visit.watch(1)
        visit.leave()


def changes_codecs(door: Door) -> None:
    """Changes the codec in mid-session, and its secret."""
    with _in_session(door) as visit:
        for _ in range(1 + door.dice.randrange(3)):
            visit.say("reactor.video", video=[door.codec()])
            visit.watch(2)
            visit.tell_secret()
            visit.settle()
            visit.watch(1)
        visit.leave()


def asks_for_keyframes(door: Door) -> None:
    """Asks for a picture that stands alone."""
    with _in_session(door, video="h264") as visit:
        for _ in range(3):
            visit.say("reactor.keyframe", track=visit.track("out", "video"))
            visit.watch(1)
        visit.leave()


def sends_its_camera(door: Door) -> None:
    """Sends pictures of its own; the model says what it saw."""
    with _in_session(door) as visit:
        own = visit.sets[-1][1]
        shown = secret_model.picture(own, secret_model.FIELDS).tobytes()
        meta = {"codec": "raw", "width": secret_model.FIELDS, "height": secret_model.FIELDS}
        for seq in range(3):
            packet = Packet(visit.track("in", "video"), seq, seq * 10_000, 1, None, 0, meta, memoryview(shown))
            visit.send(frame(BINARY, encode_packet(packet)))
        visit.pump_until(lambda: bool(visit.saw))
        for seen in visit.saw:
            visit.check([(0, own)], 0, int(seen, 16), "the camera")
        if door.dice.random() < 0.3:
            visit.send(frame(BINARY, door.dice.randbytes(50)))  # no packet; an error, and it goes on
        visit.leave()


def uploads(door: Door) -> None:
    """Uploads a file, which a command reads."""
    with _in_session(door) as visit:
        content = f"{visit.sets[-1][1]:016x}"
        assert visit.welcome is not None
        with door.upload(visit.welcome["upload_token"], content.encode()) as post:
            status, _, body = post.response()
            assert status == 201, (status, body)
        answer = visit.reply(visit.command("keep", file={"upload_id": json.loads(body)["upload_id"]}))
        if (kept := answer["data"]["reply"]) != content:
            visit.check([], None, int(kept, 16), "a file")
        visit.leave()


def shares(door: Door) -> None:
    """Lets others watch by its share link; they come and go as they like."""
    with _in_session(door) as visit:
        assert visit.welcome is not None
        viewers = [door.view(visit.welcome["share_token"]) for _ in range(1 + door.dice.randrange(3))]
        for viewer in viewers:
            viewer.watch(1 + door.dice.randrange(2))
        visit.tell_secret()
        visit.settle()
        visit.watch(2)
        leaving, staying = viewers[: len(viewers) // 2], viewers[len(viewers) // 2 :]
        for viewer in leaving:
            viewer.leave() if door.dice.random() < 0.5 else door.vanish(viewer)
        visit.leave()
        for viewer in staying:
            gone = viewer.until_gone()
            assert viewer.bye == "client_left", (viewer.bye, gone)
            viewer.socket.close()
        for viewer in viewers:
            viewer.check_viewed(visit.sets)


# ---- without goodbye --------------------------------------------------------------------------------------------------


def vanishes(door: Door) -> None:
    """Is gone after some pictures."""
    door.vanish(_in_session(door))


def vanishes_before_the_welcome(door: Door) -> None:
    """Is gone somewhere in the handshake."""
    with RawClient(door.port, upgrade=False) as client:
        before_welcome(client, door.dice)
        door.vanish(client)


def vanishes_with_commands_in_flight(door: Door) -> None:
    """Is gone with commands under way, the last perhaps cut short."""
    _use(door, with_commands_in_flight)


def vanishes_in_mid_forward(door: Door) -> None:
    """Is gone while its session's step computes."""
    _use(door, in_mid_forward)


def _use(door: Door, moment: Callable[[RawClient, Random], None]) -> None:
    with RawClient(door.port, upgrade=False) as client:
        try:
            moment(client, door.dice)
        except (Gone, AssertionError):  # no room, which these clients do not look for
            raise Refused from None
        door.vanish(client)


def closes_half(door: Door) -> None:
    """Says that it will send no more, and reads on."""
    with _in_session(door) as visit:
        visit.socket.shutdown(socket.SHUT_WR)
        visit.until_gone()


def dies(door: Door) -> None:
    """A process that is killed while it watches."""
    head = "\r\n".join(
        [f"GET {door.path(audio='none')} HTTP/1.1", "host: localhost", "upgrade: websocket", "connection: upgrade",
         "sec-websocket-version: 13", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="]
    )  # fmt: skip
    arguments = [sys.executable, "-I", "-S", "-c", KILLED, str(door.port), head]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for _ in range(1 + door.dice.randrange(5)):
            process.stdout.read(1)
        process.send_signal(signal.SIGKILL)


def breaks_off_an_upload(door: Door) -> None:
    """Begins an upload and breaks it off, or its session, or both."""
    with _in_session(door) as visit:
        assert visit.welcome is not None
        with door.upload(visit.welcome["upload_token"], door.dice.randbytes(2000), said=50_000) as post:
            visit.watch(1)
            if door.dice.random() < 0.5:
                door.vanish(post)
                visit.leave()
            else:
                door.vanish(visit)
                status, _, body = post.response()
                assert status in (401, 408, 410), (status, body)  # 401: the session was over first


def fails(door: Door) -> None:
    """Its model raises."""
    with _in_session(door) as visit:
        visit.command("fail")
        visit.until_gone()
        assert visit.bye == "model_error", visit.bye
        door.ledger.count("models that raised")


# ---- in the queue -----------------------------------------------------------------------------------------------------


def leaves_the_queue(door: Door) -> None:
    """Waits a moment, if it has to, and goes."""
    with door.connect() as visit:
        if not visit.enter(queued=True):
            door.ledger.count("left the queue")
            if door.dice.random() < 0.3:
                code = visit.reply(visit.command("whose"))["data"].get("code")
                assert code == "not_admitted" or visit.welcome is not None, code
        if door.dice.random() < 0.4:
            visit.leave()
        else:
            door.vanish(visit)


# ---- too slow, too much -----------------------------------------------------------------------------------------------


def is_slow(door: Door) -> None:
    """Reads nothing for a while, then goes on."""
    with door.connect(receive=4096, video="raw") as visit:
        visit.enter()
        visit.tell_secret()
        time.sleep(0.1 + 0.3 * door.dice.random())
        visit.settle()
        visit.watch(3)
        visit.leave()


def stalls(door: Door) -> None:
    """Reads nothing until it must have been closed for it; what lies in the buffers is all that it gets."""
    with door.connect(receive=4096, video="raw", audio="none") as visit:
        visit.enter()
        visit.tell_secret()
        time.sleep(STALL_ENDS)
        frames = visit.frames
        visit.until_gone()
        assert visit.frames - frames < secret_model.FPS * STALL_ENDS, "a client that took nothing was served on"


def floods(door: Door) -> None:
    """Says more commands than it may, each with an id; all are answered."""
    with _in_session(door) as visit:
        for level in range(300):
            visit.command("set_level", level=level % 256)
        visit.settle()
        visit.leave()


def floods_deaf(door: Door) -> None:
    """Says ever more without reading, until the answers fill all buffers and it is closed for it."""
    with _in_session(door, video="none", audio="none") as visit:
        visit.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ids = range(10**6, 10**6 + 1000)
        said = b"".join(frame(TEXT, b'{"type": "whose", "data": {}, "id": %d}' % id_) for id_ in ids)
        visit.unanswered |= dict.fromkeys(ids, "whose")
        visit.socket.settimeout(STALL_ENDS)
        # the system keeps what a closed socket has still to send until somebody reads it, and a server that has said goodbye
        # reads on for a moment
        with suppress(Gone, TimeoutError):
            for _ in range(100):
                visit.send(said)
        visit.until_gone()
        assert visit.bye in ("flood", None), visit.bye


# ---- nonsense after the upgrade ---------------------------------------------------------------------------------------

NOT_MESSAGES = (
    b"", b"nonsense", b"{", b"[]", b"null", b"7", b'"text"', b'{"type": 7}', b'{"data": {}}', b'{"type": "x", "data": []}',
    b'{"type": "set_level", "data": {"level": NaN}}', b'{"type": "reactor.feedback", "data": {"track": "x"}}',
    b'{"type": "reactor.video", "data": {"video": ["no such codec"]}}', b'{"type": "reactor.nothing", "data": {}}',
    b"[" * 2000, b'{"type": "set_level", "data": {"level": 1}, "id": 1e400}', b'{"type":"\\ud800","data":{}}',
)  # fmt: skip


def talks_nonsense(door: Door) -> None:
    """Says what is no message; the session goes on."""
    with _in_session(door) as visit:
        for _ in range(8):
            if door.dice.random() < 0.6:
                nonsense = door.dice.choice(NOT_MESSAGES)
            else:
                nonsense = bytearray(b'{"type": "set_level", "data": {"level": 7}}')
                for _ in range(1 + door.dice.randrange(3)):
                    nonsense[door.dice.randrange(len(nonsense))] = door.dice.randrange(32, 127)
            visit.send(frame(TEXT, bytes(nonsense)))
        visit.tell_secret()
        visit.settle()
        visit.watch(1)
        visit.leave()


def breaks_the_framing(door: Door) -> None:
    """Sends what is no WebSocket, in mid-session; is closed for it."""
    dice = door.dice
    broken: list[tuple[bytes, int]] = [
        (frame(TEXT, b"{}", masked=False), 1002),
        (frame(TEXT, b"{}", rsv=dice.randint(1, 7)), 1002),
        (frame(dice.choice([3, 4, 5, 6, 7, 11, 15]), b""), 1002),
        (frame(0, b"nothing to go on with"), 1002),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(9, bytes(126)), 1002),
        (frame(TEXT, b"x" * TOO_BIG), 1009),
    ]
    sent, code = dice.choice(broken)
    with _in_session(door) as visit:
        try:
            visit.send(sent)
        except Gone:
            return
        gone = visit.until_gone()
        assert gone.code in (code, None), (gone.code, code)  # a reset may overtake the close frame


def sends_random_bytes(door: Door) -> None:
    """Random bytes after the upgrade, in the queue or in a session."""
    with door.connect() as visit:
        visit.enter(queued=door.dice.random() < 0.7)
        try:
            for _ in range(1 + door.dice.randrange(4)):
                visit.send(door.dice.randbytes(door.dice.randrange(1, 300)))
            visit.socket.shutdown(socket.SHUT_WR)  # random bytes may be the head of a long message
            visit.until_gone()
        except Gone:
            pass


#: what controlling clients do, and how often
VISITS: dict[Behaviour, float] = {
    polite: 26, control_only: 4, acknowledging: 5, talkative: 6, changes_codecs: 4, asks_for_keyframes: 2,
    sends_its_camera: 4, uploads: 4, shares: 5,
    vanishes: 12, vanishes_with_commands_in_flight: 5, vanishes_in_mid_forward: 2, vanishes_before_the_welcome: 4,
    closes_half: 3, dies: 0.7, breaks_off_an_upload: 2, fails: 0.7,
    leaves_the_queue: 8, is_slow: 1, stalls: 0.1, floods: 1, floods_deaf: 0.2,
    talks_nonsense: 3, breaks_the_framing: 2.5, sends_random_bytes: 3,
}  # fmt: skip
