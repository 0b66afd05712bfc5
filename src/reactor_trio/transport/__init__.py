"""The server's side of HTTP/1.1 and WebSocket on one port. This part knows neither models nor sessions.

`serve_http` serves one connection. It makes an `Exchange` for each request and has a function of the site answer it. If that
opens a `Conversation`, the connection becomes a WebSocket, and the conversation gets its `MessageChannel`.
"""

from reactor_trio.protocol.refusals import REFUSAL_HEADER as REFUSAL_HEADER
from reactor_trio.protocol.refusals import Refusal as Refusal
from reactor_trio.protocol.refusals import Refused as Refused
from reactor_trio.transport.exchange import Exchange as Exchange
from reactor_trio.transport.exchange import PortRules as PortRules
from reactor_trio.transport.exchange import Refusing as Refusing
from reactor_trio.transport.http import Serve as Serve
from reactor_trio.transport.http import serve_http as serve_http
from reactor_trio.transport.http import turn_away as turn_away
from reactor_trio.transport.message_channel import MessageChannel as MessageChannel
from reactor_trio.transport.message_channel import PeerGone as PeerGone
from reactor_trio.transport.message_channel import PeerTooSlow as PeerTooSlow
from reactor_trio.transport.message_channel import SentNow as SentNow
from reactor_trio.transport.open_requests import OpenRequests as OpenRequests
from reactor_trio.transport.patient_listener import PatientListener as PatientListener
from reactor_trio.transport.request import Conversation as Conversation
from reactor_trio.transport.request import Limits as Limits
from reactor_trio.transport.request import Request as Request
from reactor_trio.transport.request import Response as Response
from reactor_trio.transport.tls import secured as secured
from reactor_trio.transport.upgrade import WEBSOCKET_PATH as WEBSOCKET_PATH
from reactor_trio.transport.wire_stream import StreamStalled as StreamStalled
from reactor_trio.transport.wire_stream import WireStream as WireStream
from reactor_trio.transport.wire_stream import peer_of as peer_of
