"""The two hooks for what must not be shown: one for prompts, one for pictures. Put your own checks in their place.

`reactor.yaml` names the first (`runtime.moderate`), `config.yml` may name the second (`safety: guard:allow`).
"""

import re

#: A toy. A service checks with a model of its own, which knows more than words.
WORDS = {"nude", "naked", "nsfw", "gore", "porn"}


def moderate(text: str, *, command: str, field: str) -> str | None:
    """Why a prompt is refused, or None. Runs in a worker thread."""
    found = WORDS.intersection(re.findall(r"[a-z]+", text.lower()))
    return f"not this word, please: {min(found)}" if found else None


def allow(frames) -> bool:
    """Whether a picture may be shown: uint8 (1, H, W, 3), a tensor on the model's device. This one refuses white."""
    return bool(frames.float().mean() < 250)
