"""By which library ranks meet, on machines with fewer cards than ranks."""

from __future__ import annotations

import pytest
import torch

from reactor_trio.distributed.worker_process import group_backend


@pytest.mark.parametrize(("cards", "backend"), [(0, "gloo"), (1, "gloo"), (2, "nccl"), (8, "nccl")])
def test_two_ranks_meet_by_nccl_only_if_each_has_a_card(monkeypatch, cards, backend):
    """NCCL refuses two ranks on one card: "Duplicate GPU detected"."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
    assert group_backend(2) == backend
