"""`SoundRhythm`: finds a model that makes sound with only some of its frames, at regular intervals."""

from __future__ import annotations

import logging

from reactor_trio.errors import ERRORS_PAGE

log = logging.getLogger("reactor_trio.model")

#: So many yields without sound before each one with it are a mistake; more are sound that something makes now and then.
_MOST_SILENT = 9
#: so many equal distances are a rhythm
_ENOUGH = 8


class SoundRhythm:
    """Watches the yields of one session, and warns once.

    A frame that comes with sound is shown for as long as its samples last, and a frame without sound for the pacer's
    interval. So sound with each third frame makes pictures uneven, and leaves gaps between the samples. The watch begins
    after the first yield with both.
    """

    def __init__(self, track: str) -> None:
        self._track = track
        self._silent = 0
        self._distance, self._repeated = 0, 0

    def observe(self, sounds: bool) -> None:
        """Take the next yield: whether it has sound."""
        if not sounds:
            self._silent += 1
            return
        silent, self._silent = self._silent, 0
        if not 0 < silent <= _MOST_SILENT:
            self._distance = 0
            return
        self._repeated = self._repeated + 1 if silent == self._distance else 1
        self._distance = silent
        if self._repeated == _ENOUGH:
            log.warning(
                "track %s: sound comes with one yield of %d only, which makes gaps in the sound and uneven pictures: yield "
                "with each frame the samples of its time, sample_rate / fps of them (%s#sound-gaps)",
                self._track, silent + 1, ERRORS_PAGE,
            )  # fmt: skip
