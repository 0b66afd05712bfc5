"""A client's time with the model, on the I/O loop: commands, playout, uploads, lifetime."""

from reactor_trio.session.attachment import Attachment as Attachment
from reactor_trio.session.attachment import Flood as Flood
from reactor_trio.session.attachment import Journal as Journal
from reactor_trio.session.command_ledger import SESSION_OVER as SESSION_OVER
from reactor_trio.session.session import Session as Session
from reactor_trio.session.session_services import SessionServices as SessionServices
