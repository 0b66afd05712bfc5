"""The I/O loop, the model loop, and what crosses between them: the model host, its threads, and the hooks of the clock."""

from reactor_trio.concurrency.asyncio_guard import AsyncioUsedError as AsyncioUsedError
from reactor_trio.concurrency.author_thread import AuthorThread as AuthorThread
from reactor_trio.concurrency.author_tracebacks import author_error as author_error
from reactor_trio.concurrency.author_tracebacks import log_author_error as log_author_error
from reactor_trio.concurrency.author_tracebacks import note_place as note_place
from reactor_trio.concurrency.author_tracebacks import place_of as place_of
from reactor_trio.concurrency.clock_hooks import ClockHooks as ClockHooks
from reactor_trio.concurrency.failure_log import FailureLog as FailureLog
from reactor_trio.concurrency.kept_errors import forget_variables as forget_variables
from reactor_trio.concurrency.model_host import ExecutionObserver as ExecutionObserver
from reactor_trio.concurrency.model_host import HostClosed as HostClosed
from reactor_trio.concurrency.model_host import ModelHost as ModelHost
from reactor_trio.concurrency.model_host import SessionOver as SessionOver
from reactor_trio.concurrency.model_host import current_call as current_call
from reactor_trio.concurrency.model_host import open_model_host as open_model_host
from reactor_trio.concurrency.model_host import strip as strip
from reactor_trio.concurrency.nested_loops import hide_trio_from_nested_loops as hide_trio_from_nested_loops
from reactor_trio.concurrency.safe_checkpoint import raise_if_cancelled as raise_if_cancelled
