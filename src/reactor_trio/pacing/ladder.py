"""Placeholder until rate control lands."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quality:
    """What a viewer is given."""

    bitrate: float = 1e6
    divisor: int = 1
    scale: float = 1.0
