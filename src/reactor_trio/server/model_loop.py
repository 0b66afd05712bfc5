"""What may end the model: its own `run()`, which must go on for the model's life, and model code that ends its process."""

from __future__ import annotations

import trio

from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.model import Model, ReactorModel
from reactor_trio.model_host import ModelHost, SessionOver, with_twin


class ModelLoop:
    """Watches over one model.

    Attributes:
        running: whether its own `run()` is under way.
    """

    def __init__(self, host: ModelHost) -> None:
        self.running = False
        self._host = host
        self._killed = trio.Event()
        self._killer: BaseException | None = None

    def killed(self, error: BaseException) -> None:
        """Model code of a session raised what no program survives, such as SystemExit."""
        self._killer = error
        self._killed.set()

    def is_interrupt(self, error: BaseException) -> bool:
        """Whether it is Ctrl-C in a test, where model code runs in the main thread."""
        return isinstance(error, KeyboardInterrupt) and self._host.thread is None

    async def until_ended(self, model: Model, declaration: Declaration) -> tuple[str, BaseException | None]:
        """Run it for as long as it lives; why it ended, in words, and what it raised."""
        what, cause = "", None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_killed, nursery.cancel_scope)
            what, cause = await self._run(model, declaration)
            nursery.cancel_scope.cancel()
        if self._killer is not None:
            return f"model code raised {type(self._killer).__name__}: {self._killer}", self._killer
        return what, cause

    async def _until_killed(self, running: trio.CancelScope) -> None:
        await self._killed.wait()
        running.cancel()

    async def _run(self, model: Model, declaration: Declaration) -> tuple[str, BaseException | None]:
        if declaration.kind != "run_loop":
            await trio.sleep_forever()
        assert isinstance(model, ReactorModel)
        self.running = True
        try:
            await self._host.run(model.run)
        except trio.Cancelled:
            raise
        except SessionOver as error:
            return "check_cancelled() left run(): catch SessionOver around the step, or poll cancelled()", error
        except BaseException as error:
            if self.is_interrupt(error):
                raise
            cause = with_twin(error) if isinstance(error, Exception) else error
            return f"run() raised {type(cause).__name__}: {cause}", cause
        finally:
            self.running = False
        return "run() returned; it must go on for the model's life", None
