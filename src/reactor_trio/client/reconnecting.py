"""Coming back to a session whose link was lost: trying until the server has an answer, or the time for it is over.

Each try is a new connection that shows the session's resume token. Waiting between tries grows and is by chance, so that the
clients of a server that was away do not all come at once.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import anyio

from reactor_trio.client.client_transport import Transport, TransportClosed
from reactor_trio.client.session_protocol import Bye, Conversation, Returned
from reactor_trio.errors import ConnectionRefused, ProtocolError, ReactorError

#: seconds within which to come back if the server does not say how long it waits
WINDOW = 60.0
#: Seconds to wait before a try, at most: the first, and any. How long it is in fact is by chance.
FIRST_WAIT = 0.1
LONGEST_WAIT = 2.0
#: Seconds that a try may take: the first, and any. A link that swallows everything shows in no other way.
FIRST_PATIENCE = 2.0
LONGEST_PATIENCE = 10.0
#: What a server or a proxy answers that may let us in a moment later.
_LATER = (429, 502, 503, 504)

#: A new connection to the session: with this resume token, the messages after this number, and these codecs for video, or
#: those that it began with. Raises as `connect` does.
Reopen = Callable[[str, int, Sequence[str] | None], Awaitable[Transport]]


class Gone(ReactorError):
    """There is no way back, and why."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def come_back(
    reopen: Reopen, conversation: Conversation, dice: Callable[[], float] = random.random
) -> tuple[Transport, Returned]:
    """A connection on which the session goes on, its welcome taken. Raises Gone. Cancelled, it leaves nothing open."""
    welcome = conversation.welcome
    assert welcome is not None, "no session has begun"
    window = WINDOW if welcome.resume_window is None else welcome.resume_window
    deadline = anyio.current_time() + window
    why = "no answer"
    tries = 0
    wait = FIRST_WAIT * dice()
    while True:
        left = deadline - anyio.current_time()
        if wait >= left:
            await anyio.sleep(left)
            raise Gone("lost", f"the link did not come back within {window:g} s: {why}")
        await anyio.sleep(wait)
        patience = min(FIRST_PATIENCE * 2**tries, LONGEST_PATIENCE, deadline - anyio.current_time())
        tries += 1
        wait = min(FIRST_WAIT * 2**tries, LONGEST_WAIT) * dice()
        try:
            with anyio.fail_after(patience):
                return await _try(reopen, conversation)
        except ConnectionRefused as refused:
            if refused.status not in _LATER:
                raise Gone("lost", f"the server knows this session no more: {refused}") from None
            why, wait = str(refused), max(wait, refused.retry_after or 0.0)
        except TimeoutError:
            why = "no answer"
        except (OSError, TransportClosed) as error:
            why = str(error)


async def _try(reopen: Reopen, conversation: Conversation) -> tuple[Transport, Returned]:
    assert conversation.welcome is not None
    token = conversation.welcome.resume_token
    assert token is not None
    transport = await reopen(token, conversation.newest, conversation.video)
    # A link that is given up must not say 1000, with which the session would end.
    code = 1001
    try:
        first = await transport.receive()
        if not isinstance(first, str):
            raise ProtocolError("a packet came before reactor.welcome")
        answer = conversation.receive_return(first)
        if isinstance(answer, Returned):
            return transport, answer
        if isinstance(answer, Bye) and answer.reason != "client_left":
            raise Gone(answer.reason, answer.message)
        code = 1000  # it is another session, which nobody wants, or none
        raise Gone("lost", "the link broke, and when it was back the session was over")
    except ProtocolError as error:
        await transport.aclose(1002, str(error))
        raise Gone("protocol_error", f"the server broke the protocol: {error}") from None
    except BaseException:
        await transport.aclose(code)
        raise
