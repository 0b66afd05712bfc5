"""Reconnecting to a session whose link was lost: try until the server answers, or until it no longer keeps the session.

Each try is a new connection that shows the session's resume token. The waits between tries grow and are random, so that
the clients of a restarted server do not all reconnect at the same instant.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from itertools import count

import anyio

from reactor_trio.client.client_transport import Transport, TransportClosed
from reactor_trio.client.refusals import retry_of
from reactor_trio.client.session_events import Bye
from reactor_trio.client.session_protocol import SessionProtocol
from reactor_trio.errors import ConnectionRefused, ProtocolError, ReactorError
from reactor_trio.protocol import VideoChoice, Welcome, encode_client_text

#: seconds to keep trying if the server does not say how long it keeps the session
WINDOW = 60.0
#: Longest wait before the first try and before any later one, in seconds. The actual wait is a random share of it.
FIRST_WAIT = 0.1
LONGEST_WAIT = 2.0
#: Longest time of the first try and of any later one, in seconds. Only a timeout reveals a link that drops all packets.
FIRST_PATIENCE = 2.0
LONGEST_PATIENCE = 10.0

#: Opens a new connection to the session. Arguments: the resume token; the number of the newest message received; the video
#: to ask for, or None for what the session began with. Raises as `connect` does.
Reopen = Callable[[str, int, VideoChoice | None], Awaitable[Transport]]


class SessionLost(ReactorError):
    """The session cannot be resumed; `reason` is the session's end reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def reconnect(reopen: Reopen, protocol: SessionProtocol) -> tuple[Transport, Welcome]:
    """Return a connection on which the session continues, and its `reactor.welcome`, of which `protocol` knows nothing yet.

    Raises SessionLost. Cancelled, it leaves nothing open.
    """
    welcome = protocol.welcome
    assert welcome is not None, "no session has begun"
    window = WINDOW if welcome.resume_window is None else welcome.resume_window
    why = "no answer"
    wait = FIRST_WAIT * random.random()  # nosec B311 - spreads clients in time
    with anyio.move_on_after(window):
        for tries in count():
            await anyio.sleep(wait)
            wait = min(FIRST_WAIT * 2 ** (tries + 1), LONGEST_WAIT) * random.random()  # nosec B311
            try:
                with anyio.fail_after(min(FIRST_PATIENCE * 2**tries, LONGEST_PATIENCE)):
                    return await _try(reopen, protocol)
            except ConnectionRefused as refused:
                if retry_of(refused) != "later":
                    raise SessionLost("lost", f"the server no longer knows this session: {refused}") from None
                why, wait = str(refused), max(wait, refused.retry_after or 0.0)
            except TimeoutError:
                why = "no answer"
            except (OSError, TransportClosed) as error:
                why = str(error)
    raise SessionLost("lost", f"the link did not come back within {window:g} s: {why}")


def _request(choice: VideoChoice) -> str:
    tracks = {"tracks": choice.tracks} if choice.tracks else {}
    return encode_client_text("reactor.video", {"video": choice.video} | tracks)


async def _try(reopen: Reopen, protocol: SessionProtocol) -> tuple[Transport, Welcome]:
    assert protocol.welcome is not None
    assert protocol.welcome.resume_token is not None
    transport = await reopen(protocol.welcome.resume_token, protocol.newest, video := protocol.video)
    # Close an abandoned link with another code than 1000, which would end the session.
    code = 1001
    try:
        first = await transport.receive()
        if not isinstance(first, str):
            raise ProtocolError("a packet came before reactor.welcome")
        answer = protocol.resumption(first)
        if isinstance(answer, Welcome):
            if protocol.video is not None and protocol.video is not video:  # asked for while this connection was made
                await transport.send(_request(protocol.video))
            return transport, answer
        if isinstance(answer, Bye) and answer.reason != "client_left":
            raise SessionLost(answer.reason, answer.message)
        code = 1000  # end it: it is another session, which this client does not want, or a place in the queue
        raise SessionLost("lost", "the link broke, and when it was back the session was over")
    except ProtocolError as error:
        await transport.aclose(1002, str(error))
        raise SessionLost("protocol_error", f"the server broke the protocol: {error}") from None
    except BaseException:
        await transport.aclose(code)
        raise
