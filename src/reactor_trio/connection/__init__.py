"""One client's connection: what it asked for, the way of its commands in, the way of frames and messages out."""

from reactor_trio.connection.coders import Coders as Coders
from reactor_trio.connection.conversation import Desk as Desk
from reactor_trio.connection.conversation import converse as converse
from reactor_trio.connection.hello import Hello as Hello
from reactor_trio.connection.hello import HelloRefused as HelloRefused
from reactor_trio.connection.hello import parse_hello as parse_hello
from reactor_trio.connection.inbound import Inbound as Inbound
from reactor_trio.connection.outbound import Outbound as Outbound
from reactor_trio.connection.services import OutboundServices as OutboundServices
from reactor_trio.connection.stay import Stay as Stay
from reactor_trio.connection.tiers import Tiers as Tiers
