"""Prompts as the network reads them. Encoding one takes longer than a frame may, so it happens beside the frames."""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import NamedTuple

import torch


class Words(NamedTuple):
    """An encoded prompt: a row for each token (1, W, D) and, for SDXL, one for the whole (1, P)."""

    tokens: torch.Tensor
    pooled: torch.Tensor | None = None

    def toward(self, goal: "Words", part: float) -> "Words":
        """The mixture of two prompts: 0 is this one, 1 the goal."""
        pooled = None if self.pooled is None else torch.lerp(self.pooled, goal.pooled, part)
        return Words(torch.lerp(self.tokens, goal.tokens, part), pooled)

    def rows(self, count: int) -> "Words":
        """The same words for each row of a batch; unchanged if there are that many already."""
        return Words(*(None if part is None else part.expand(count, *part.shape[1:]) for part in self))

    def followed_by(self, other: "Words") -> "Words":
        return Words(*(None if one is None else torch.cat((one, two)) for one, two in zip(self, other, strict=True)))


class Prompts:
    """The recent prompts, encoded, and a thread that encodes new ones.

    The text encoder runs on a thread of its own and, on CUDA, on a stream of its own, so the frames go on with the old
    prompt. Torch computes outside of Python's lock. If several prompts wait, only the newest is encoded: fast typing
    makes many.

    Args:
        encode: makes `Words` of a text; called on that thread alone, since tokenizers are not made for several.
        device: where the words are used.
        keep: how many are kept.
        thread: runs `encode`; by default a thread that is made for it.
    """

    def __init__(
        self, encode: Callable[[str], Words], device: torch.device, *, keep: int = 64, thread: Executor | None = None
    ) -> None:
        self.encode, self.device, self.keep = encode, device, keep
        self.thread = thread or ThreadPoolExecutor(1, "prompts")
        self.known: OrderedDict[str, Future[Words]] = OrderedDict()
        self.newest: Future[Words] | None = None
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def find(self, text: str) -> Words | None:
        """The encoded prompt, or None while it is being encoded. Raises what the encoder raises."""
        future = self.known.get(text)
        if future is None or future.cancelled():
            if self.newest is not None:
                self.newest.cancel()  # if it has not begun
            self.newest = future = self.known[text] = self.thread.submit(self._work, text)
            while len(self.known) > self.keep:
                self.known.popitem(last=False)
        self.known.move_to_end(text)
        if not future.done():
            return None
        if future.exception() is not None:
            del self.known[text]  # another client may try again
        words = future.result()
        if self.stream is not None:  # the memory is the encoder's stream's: not to be used again before our reads
            for tensor in filter(None.__ne__, words):
                tensor.record_stream(torch.cuda.current_stream(self.device))
        return words

    @torch.inference_mode()
    def _work(self, text: str) -> Words:
        if self.stream is None:
            return self.encode(text)
        with torch.cuda.stream(self.stream):
            words = self.encode(text)
        self.stream.synchronize()
        return words


class Crossfade:
    """From the prompt that is shown to the one that was asked for, over some frames."""

    def __init__(self, words: Words) -> None:
        self.start = self.goal = self.shown = words
        self.frames = self.left = 0

    def aim(self, goal: Words, frames: int) -> None:
        if goal is not self.goal:
            self.start, self.goal = self.shown, goal
            self.frames = self.left = frames

    def next(self) -> Words:
        """The words for the next frame."""
        self.left = max(self.left - 1, 0)
        self.shown = self.start.toward(self.goal, 1 - self.left / self.frames) if self.left else self.goal
        return self.shown
