"""The rule by which Ray Serve chooses the number of replicas: for replicas and for a printed configuration."""

from __future__ import annotations

from typing import Any

#: Seconds for which the need for more, or for fewer, replicas must last before Serve acts.
UPSCALE_DELAY, DOWNSCALE_DELAY = 2.0, 300.0
#: Share of the slots that should be taken, so that new clients find a free slot while the next replica starts
#: (`docs/operate/scaling.md`).
_HEADROOM = 0.75
#: Seconds over which Serve averages sessions and waiting clients. Over a longer time a new client counts as a part of one.
_LOOK_BACK = 2.0


def autoscaling_config(
    slots: int,
    fewest: int,
    most: int,
    *,
    target: float | None = None,
    upscale_delay: float = UPSCALE_DELAY,
    downscale_delay: float = DOWNSCALE_DELAY,
) -> dict[str, Any]:
    """Return Serve's `autoscaling_config`. To Serve, each session and each waiting client is a request.

    Args:
        slots: sessions that one replica serves at the same time.
        fewest, most: replicas.
        target: sessions and waiting clients for each replica; None: three quarters of its slots.
        upscale_delay, downscale_delay: seconds for which the need must last before Serve acts.
    """
    return {
        "min_replicas": fewest, "max_replicas": most, "target_ongoing_requests": target or _HEADROOM * slots,
        "upscale_delay_s": upscale_delay, "downscale_delay_s": downscale_delay,
        "look_back_period_s": _LOOK_BACK, "metrics_interval_s": _LOOK_BACK / 2,
    }  # fmt: skip
