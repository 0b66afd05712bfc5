"""Wire protocol, version 1: text messages, packets, end reasons and the AsyncAPI document. No I/O.

`docs/reference/protocol.md` specifies it.
"""

from reactor_trio.protocol.asyncapi import asyncapi_document as asyncapi_document
from reactor_trio.protocol.client_messages import PLAYBACK as PLAYBACK
from reactor_trio.protocol.client_messages import Cadence as Cadence
from reactor_trio.protocol.client_messages import Feedback as Feedback
from reactor_trio.protocol.client_messages import Keyframe as Keyframe
from reactor_trio.protocol.client_messages import VideoChoice as VideoChoice
from reactor_trio.protocol.client_messages import playback_arguments as playback_arguments
from reactor_trio.protocol.packet import KEYFRAME as KEYFRAME
from reactor_trio.protocol.packet import KEYFRAME_REQUEST_FLOOR as KEYFRAME_REQUEST_FLOOR
from reactor_trio.protocol.packet import Packet as Packet
from reactor_trio.protocol.packet import decode_client_packet as decode_client_packet
from reactor_trio.protocol.packet import decode_packet as decode_packet
from reactor_trio.protocol.packet import encode_packet as encode_packet
from reactor_trio.protocol.packet import packet_head as packet_head
from reactor_trio.protocol.reasons import EndReason as EndReason
from reactor_trio.protocol.reasons import close_code as close_code
from reactor_trio.protocol.text import BEAT as BEAT
from reactor_trio.protocol.text import PROTOCOL as PROTOCOL
from reactor_trio.protocol.text import SUBPROTOCOL as SUBPROTOCOL
from reactor_trio.protocol.text import Admitted as Admitted
from reactor_trio.protocol.text import ClientText as ClientText
from reactor_trio.protocol.text import Color as Color
from reactor_trio.protocol.text import Late as Late
from reactor_trio.protocol.text import NotFiniteError as NotFiniteError
from reactor_trio.protocol.text import ServerText as ServerText
from reactor_trio.protocol.text import TrackInfo as TrackInfo
from reactor_trio.protocol.text import Welcome as Welcome
from reactor_trio.protocol.text import WorldInStore as WorldInStore
from reactor_trio.protocol.text import WorldList as WorldList
from reactor_trio.protocol.text import WorldMoment as WorldMoment
from reactor_trio.protocol.text import Worlds as Worlds
from reactor_trio.protocol.text import decode_client_text as decode_client_text
from reactor_trio.protocol.text import decode_server_text as decode_server_text
from reactor_trio.protocol.text import encode_client_text as encode_client_text
from reactor_trio.protocol.text import encode_server_text as encode_server_text
from reactor_trio.protocol.text import presentable as presentable
from reactor_trio.protocol.text import printable_ascii as printable_ascii
from reactor_trio.protocol.text import readable as readable
