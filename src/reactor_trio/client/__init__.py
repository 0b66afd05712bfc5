"""The Python client: frames as numpy arrays, commands as awaitable calls, on asyncio and on trio.

`docs/reference/client/python-client.md` explains it.
"""

from reactor_trio.client.client import Client as Client
from reactor_trio.client.client_transport import Transport as Transport
from reactor_trio.client.client_transport import TransportClosed as TransportClosed
from reactor_trio.client.client_transport import WebSocketTransport as WebSocketTransport
from reactor_trio.client.connecting import connect as connect
from reactor_trio.client.decoders import available as available
from reactor_trio.client.handshake import open_websocket as open_websocket
from reactor_trio.client.observing import observe as observe
from reactor_trio.client.playback import TransportControl as TransportControl
from reactor_trio.client.recording import record as record
from reactor_trio.client.running import running as running
from reactor_trio.client.session_events import Ending as Ending
from reactor_trio.client.session_events import Message as Message
from reactor_trio.client.session_events import StateChanged as StateChanged
from reactor_trio.client.session_events import TransportChanged as TransportChanged
from reactor_trio.client.session_events import WorldChanged as WorldChanged
from reactor_trio.client.session_events import WorldSaved as WorldSaved
from reactor_trio.client.statistics import Latency as Latency
from reactor_trio.client.statistics import Spread as Spread
from reactor_trio.client.statistics import Statistics as Statistics
from reactor_trio.client.statistics import TrackStatistics as TrackStatistics
from reactor_trio.client.streams import Frame as Frame
from reactor_trio.client.streams import FrameStream as FrameStream
from reactor_trio.client.streams import MessageStream as MessageStream
from reactor_trio.client.uploads import Upload as Upload
from reactor_trio.client.world_control import WorldFork as WorldFork
