"""Image to image in a few denoising steps, one frame after another, with or without a stream batch.

Networks such as SD-Turbo, SDXL-Turbo and latent consistency models guess the clean picture in one step. A further step adds
less noise to the guess and guesses again. The noise of each step is the same for all frames, so a picture that does not move
does not flicker.
"""

from collections.abc import Callable
from typing import Any

import torch

#: its output for noisy latents (N, C, h, w) at timesteps (N,), int64
Network = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class FewSteps:
    """The sampler of one session.

    With `stream_batch` (StreamDiffusion, https://arxiv.org/abs/2312.12491) the network is called once a frame, whatever the
    number of steps: its batch holds the newest frame at its first step, the frame before at its second, and so on. A frame
    then leaves `steps - 1` frames later than it came.

    Args:
        scheduler: of the checkpoint; its noise schedule and the kind of prediction are used.
        stream_batch: whether the frames under way share one call of the network.
    """

    def __init__(self, scheduler: Any, *, stream_batch: bool = False) -> None:
        self.alphas = scheduler.alphas_cumprod.double()
        self.prediction = scheduler.config.prediction_type
        if self.prediction not in ("epsilon", "v_prediction", "sample"):
            raise ValueError(f"the scheduler's prediction_type is {self.prediction!r}: not known here")
        self.stream_batch = stream_batch
        self.plan: tuple | None = None
        self.waiting: torch.Tensor | None = None

    def __call__(self, network: Network, latents: torch.Tensor, *, strength: float, steps: int, seed: int) -> torch.Tensor:
        """Take the latents of a new frame (1, C, h, w), and return the clean latents of the oldest frame under way.

        With another strength, number of steps or seed the sampler begins with this frame: those under way are dropped.
        """
        self.prepare(latents, strength, steps, seed)
        if self.stream_batch:
            if self.waiting is None:  # nothing is under way: this frame stands in for those before it
                self.waiting = self.noised(latents, slice(1, steps))
            rows = torch.cat((self.noised(latents, slice(0, 1)), self.waiting))
            clean = self.clean(network, rows, slice(0, steps))
            self.waiting = self.noised(clean[:-1], slice(1, steps))
            return clean[-1:]
        clean = latents
        for number in range(steps):
            step = slice(number, number + 1)
            clean = self.clean(network, self.noised(clean, step), step)
        return clean

    def prepare(self, latents: torch.Tensor, strength: float, steps: int, seed: int) -> None:
        plan = (strength, steps, seed, latents.shape)
        if plan == self.plan:
            return
        self.plan, self.waiting = plan, None
        times = torch.tensor(timesteps(strength, steps, len(self.alphas)))
        alphas = self.alphas.to(times.device)[times].view(-1, 1, 1, 1)
        random = torch.Generator().manual_seed(seed)  # of the host, so that a seed is the same on every device
        self.noise = torch.randn(steps, *latents.shape[1:], generator=random).to(latents)
        self.signal, self.sigma = alphas.sqrt().to(latents), (1 - alphas).sqrt().to(latents)
        self.times = times.to(latents.device)

    def noised(self, clean: torch.Tensor, steps: slice) -> torch.Tensor:
        """Clean latents with the noise of these steps, a row for each."""
        return self.signal[steps] * clean + self.sigma[steps] * self.noise[steps]

    def clean(self, network: Network, noisy: torch.Tensor, steps: slice) -> torch.Tensor:
        """What the network takes for the clean latents of these rows."""
        guess = network(noisy, self.times[steps])
        if self.prediction == "epsilon":
            return (noisy - self.sigma[steps] * guess) / self.signal[steps]
        if self.prediction == "v_prediction":
            return self.signal[steps] * noisy - self.sigma[steps] * guess
        return guess


def timesteps(strength: float, steps: int, of: int = 1000) -> list[int]:
    """From the noise that `strength` adds downwards, evenly: 1.0 in 4 steps of 1000 is 999, 749, 499, 249."""
    return [max(round(strength * of * (steps - number) / steps) - 1, 0) for number in range(steps)]
