"""One client's connection: its request, the commands and media that it sends, the messages and frames that it gets."""

from reactor_trio.connection.client_connection import SessionProvider as SessionProvider
from reactor_trio.connection.client_connection import serve_client as serve_client
from reactor_trio.connection.client_sender import ClientSender as ClientSender
from reactor_trio.connection.connect_request import ConnectRequest as ConnectRequest
from reactor_trio.connection.connect_request import parse_connect_request as parse_connect_request
from reactor_trio.connection.rendition_set import RenditionSet as RenditionSet
from reactor_trio.connection.sender_context import SenderContext as SenderContext
from reactor_trio.connection.served_session import Entry as Entry
from reactor_trio.connection.served_session import ServedSession as ServedSession
