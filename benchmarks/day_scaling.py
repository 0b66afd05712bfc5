"""How many replicas: Ray Serve's request-based autoscaling as its documentation and its default policy state it.

    wanted = ceil(demand / target), where demand is the mean over the look-back window of ongoing and queued requests

A session is one ongoing request, who waits is a queued one; those on replicas that drain do not count any more. The
difference from what runs is taken times a factor, up or down. A decision is carried out when all of an unbroken row, as long
as the delay, have called for the same direction.
Source: Ray Serve documentation, "Ray Serve Autoscaling" and "Advanced Ray Serve Autoscaling" (`AutoscalingConfig`), read in
November 2026; the defaults are its defaults, but for `max_replicas`. Decisions here are a second apart.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

#: seconds between two decisions
DECIDE_EVERY = 1.0


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Settings, by the names of `AutoscalingConfig` without their units; times in seconds."""

    target_ongoing_requests: float = 2.0
    min_replicas: int = 1
    max_replicas: int = 100
    upscale_delay: float = 30.0
    downscale_delay: float = 600.0
    look_back_period: float = 30.0
    metrics_interval: float = 10.0
    upscaling_factor: float = 1.0
    downscaling_factor: float = 1.0


class Autoscaler:
    """The rule at work; time is an argument."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        #: how many replicas there should be
        self.wanted = rule.min_replicas
        self._reports: deque[tuple[float, int]] = deque()
        self._in_a_row = 0

    def report(self, now: float, demand: int) -> None:
        """How many sessions run on replicas that serve, or wait for one."""
        self._reports.append((now, demand))
        while self._reports[0][0] <= now - self.rule.look_back_period:
            self._reports.popleft()

    def decide(self, running: int) -> int:
        """How many replicas there should be, with so many that serve now."""
        rule = self.rule
        desired = max(rule.min_replicas, min(rule.max_replicas, self._desired(running)))
        step, delay = (1, rule.upscale_delay) if desired > self.wanted else (-1, rule.downscale_delay)
        if desired == self.wanted:
            self._in_a_row = 0
        else:
            self._in_a_row = (self._in_a_row if self._in_a_row * step > 0 else 0) + step
            if abs(self._in_a_row) > int(delay / DECIDE_EVERY):
                self._in_a_row, self.wanted = 0, desired
        return self.wanted

    def _desired(self, running: int) -> int:
        if not self._reports:
            return self.wanted
        demand = sum(demand for _, demand in self._reports) / len(self._reports)
        difference = demand / self.rule.target_ongoing_requests - running
        factor = self.rule.upscaling_factor if difference > 0 else self.rule.downscaling_factor
        desired = math.ceil(running + factor * difference)
        if desired == running and math.ceil(running + difference) < running:
            desired -= 1  # a small factor would else never take the last steps down
        return desired
