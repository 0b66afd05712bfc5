"""One viewer's sound of one track: its encoder, and the next one in its place if it fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

from reactor_trio.connection.coders import Coders
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Encoded, Encoder, FrameHandle, open_encoder
from reactor_trio.protocol import TrackInfo

log = logging.getLogger("reactor_trio.connection")


class Sound:
    """The audio track `spec`, with `index` on the wire.

    Args:
        codecs: what the viewer decodes, best first; at least one.
        settings: how frames are encoded.
        coders: run the encoder.
        changed: told what the viewer must know before the next packet.
        forsaken: called when nothing that the viewer decodes can be encoded any more.
    """

    def __init__(
        self,
        index: int,
        spec: TrackSpec,
        codecs: tuple[str, ...],
        settings: CodecSettings,
        coders: Coders,
        changed: Callable[[TrackInfo], None],
        forsaken: Callable[[], None],
    ) -> None:
        self.index = index
        #: what the viewer has been told of the track
        self.info = TrackInfo(index, spec.name, "audio", "out", codecs[0], sample_rate=spec.sample_rate)
        self._spec = spec
        self._codecs = list(codecs)
        self._settings = settings
        self._coders = coders
        self._changed = changed
        self._forsaken = forsaken
        self._encoder: Encoder | None = None
        self._open()

    async def encode(self, frame: FrameHandle) -> Encoded | None:
        """The payload for a block; None if no codec is left that can encode it."""
        while self._encoder is not None:
            try:
                return await self._coders.encode(self._encoder, frame)
            except Exception as error:  # whatever a codec says
                self._blame(self._encoder.implementation, error)
            self.close()
            self._open()
            if self._encoder is not None:
                self._changed(self.info)
        return None

    def close(self) -> None:
        """Nothing more is encoded."""
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            self._coders.close(encoder)

    def _open(self) -> None:
        while self._codecs:
            if self._coders.hangs("encoder", self._codecs[0]):
                del self._codecs[0]
                continue
            try:
                encoder = open_encoder(self._spec, self._codecs[0], self._settings)
            except Exception as error:  # whatever a codec says
                self._blame("not opened", error)
                continue
            self._encoder, self.info = encoder, encoder.describe(self.index, self._spec, None)
            return
        self._forsaken()

    def _blame(self, implementation: str, error: Exception) -> None:
        log.error(
            "%s: the %s encoder (%s) failed and is not used again for this client: %s: %s",
            self._spec.name, self._codecs.pop(0), implementation, type(error).__name__, error, exc_info=error,
        )  # fmt: skip
