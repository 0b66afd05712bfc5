"""The server's side of HTTP/1.1 and WebSocket on one port. This part knows neither models nor sessions.

`serve_http` serves one connection for a `Site`. If the site admits a WebSocket, `serve_http` calls the site's `Conversation`
with a `MessageChannel`.
"""

from reactor_trio.transport.http import serve_http as serve_http
from reactor_trio.transport.http import turn_away as turn_away
from reactor_trio.transport.message_channel import MessageChannel as MessageChannel
from reactor_trio.transport.message_channel import PeerGone as PeerGone
from reactor_trio.transport.message_channel import PeerTooSlow as PeerTooSlow
from reactor_trio.transport.message_channel import SentNow as SentNow
from reactor_trio.transport.patient_listener import PatientListener as PatientListener
from reactor_trio.transport.site import BodyTaker as BodyTaker
from reactor_trio.transport.site import Conversation as Conversation
from reactor_trio.transport.site import Limits as Limits
from reactor_trio.transport.site import Refused as Refused
from reactor_trio.transport.site import Request as Request
from reactor_trio.transport.site import Response as Response
from reactor_trio.transport.site import Site as Site
from reactor_trio.transport.tls import secured as secured
from reactor_trio.transport.upgrade import WEBSOCKET_PATH as WEBSOCKET_PATH
from reactor_trio.transport.wire_stream import StreamStalled as StreamStalled
from reactor_trio.transport.wire_stream import WireStream as WireStream
from reactor_trio.transport.wire_stream import peer_of as peer_of
