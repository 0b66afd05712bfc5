"""A session in two halves: state, drivers and generator on the model loop; playout and attachments on the I/O loop."""

from reactor_trio.session.answer import FILE_UPLOADED as FILE_UPLOADED
from reactor_trio.session.answer import Answer as Answer
from reactor_trio.session.answer import SessionSide as SessionSide
from reactor_trio.session.attachment import Attachment as Attachment
from reactor_trio.session.attachment import Flood as Flood
from reactor_trio.session.attachment import Journal as Journal
from reactor_trio.session.half import Half as Half
from reactor_trio.session.half import LocalHalf as LocalHalf
from reactor_trio.session.moderation import Check as Check
from reactor_trio.session.outflow import PlayoutSide as PlayoutSide
from reactor_trio.session.pending import Command as Command
from reactor_trio.session.port import Port as Port
from reactor_trio.session.services import SessionServices as SessionServices
from reactor_trio.session.session import Session as Session
from reactor_trio.session.unanswered import SESSION_OVER as SESSION_OVER
from reactor_trio.session.unanswered import CommandRecord as CommandRecord
