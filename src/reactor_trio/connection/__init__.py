"""One client's connection: what it asked for, the way of its commands in, the way of frames and messages out."""

from reactor_trio.connection.client_connection import Desk as Desk
from reactor_trio.connection.client_connection import converse as converse
from reactor_trio.connection.client_sender import Outbound as Outbound
from reactor_trio.connection.connect_request import Hello as Hello
from reactor_trio.connection.connect_request import HelloRefused as HelloRefused
from reactor_trio.connection.connect_request import parse_hello as parse_hello
from reactor_trio.connection.media_receiver import Inbound as Inbound
from reactor_trio.connection.rendition_set import Tiers as Tiers
from reactor_trio.connection.resumable_session import Stay as Stay
from reactor_trio.connection.sender_services import OutboundServices as OutboundServices
