"""The two loops: model code on a thread of its own, sockets and pacing beside it, and the one seam between them."""

from reactor_trio.model_host.asyncio_hint import AsyncioUsedError as AsyncioUsedError
from reactor_trio.model_host.asyncio_hint import with_twin as with_twin
from reactor_trio.model_host.author_thread import AuthorThread as AuthorThread
from reactor_trio.model_host.failure_log import FailureLog as FailureLog
from reactor_trio.model_host.host import HostClosed as HostClosed
from reactor_trio.model_host.host import ModelHost as ModelHost
from reactor_trio.model_host.host import SessionOver as SessionOver
from reactor_trio.model_host.host import current_call as current_call
from reactor_trio.model_host.host import open_model_host as open_model_host
from reactor_trio.model_host.host import strip as strip
from reactor_trio.model_host.timekeeping import Timekeeper as Timekeeper
from reactor_trio.model_host.witness import Witness as Witness
