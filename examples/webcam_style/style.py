"""Repaints your camera while you look: a small convolution network between video in and video out.

It stands for a video-to-video model: a diffusion model could take the place of these few layers.
"""

import math
from typing import Any, Literal

import torch
from torch.nn import functional

from reactor_trio import (
    Idle,
    Input,
    InputField,
    InputState,
    Output,
    ReactorPipeline,
    Video,
    event,
    progress,
    to_frames,
)

Style = Literal["paint", "neon", "dream", "none"]


class Webcam(Input):
    camera: Video


class Styled(Output):
    picture: Video


class Look(InputState):
    style: Style = InputField(default="paint", description="Brush strokes, glowing edges, or a random network")
    strength: float = InputField(default=1.0, ge=0.0, le=1.0, description="0: the camera as it is")
    detail: int = InputField(
        default=4, ge=1, le=8, unit="px", description="Size of a brush stroke, width of a glowing edge"
    )
    seed: int = InputField(default=7, ge=0, le=9999, advanced=True, description="Which network `dream` is")


class WebcamStyle(ReactorPipeline):
    state: Look
    input: Webcam
    fps = 30
    buffer_size = 1  # of a camera the newest frame counts

    def load(self, config: dict[str, Any]) -> None:
        self.height = config.get("height", 360)
        self.device = torch.device(config.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.set_num_threads(config.get("threads", 1))
        styles: list[Style] = ["paint", "neon", "dream"]
        for number, style in enumerate(styles):  # the first call of an operation is slow: here no client waits for it
            progress(number / len(styles), f"warming up {style}")
            self.stylize(torch.zeros(self.height, self.height * 16 // 9, 3, dtype=torch.uint8).numpy(), Look(style=style))

    def inference(self):
        while True:
            # Not `await read()`: commands are applied between two yields, so they would wait for the camera, too.
            frames = self.input.camera.try_read()
            if frames is None:
                yield Idle  # the next frame of the camera wakes us
            else:
                yield Styled(picture=self.stylize(frames[-1].data, self.state))

    @event(name="key_space", description="Another network")
    def another(self) -> None:
        self.state.style = "dream"
        self.state.seed = (self.state.seed + 1) % 10_000

    @torch.inference_mode()
    def stylize(self, picture, look: Look) -> torch.Tensor:
        """uint8 (H, W, 3) in, uint8 (1, h, w, 3) out, on the model's device; h is at most the configured height."""
        video = torch.from_numpy(picture).to(self.device).permute(2, 0, 1)[None].float() / 255
        if video.shape[-2] > self.height:
            width = round(video.shape[-1] * self.height / video.shape[-2])
            video = functional.interpolate(video, (self.height, width), mode="bilinear", align_corners=False)
        if look.style != "none" and look.strength > 0:
            styled = {"paint": paint, "neon": neon, "dream": dream}[look.style](video, look)
            video = torch.lerp(video, styled, look.strength)
        return to_frames(video, range=(0, 1))


def paint(video: torch.Tensor, look: Look) -> torch.Tensor:
    """Brush strokes (Kuwahara): a pixel takes mostly the mean of that square, of the four around it, that varies least."""
    size, (height, width) = look.detail, video.shape[-2:]
    around = functional.pad(video, (size, size, size, size), mode="replicate")
    both = functional.avg_pool2d(torch.cat((around, around.square()), dim=1), size + 1, stride=1)
    means, variances = both[:, :3], (both[:, 3:] - both[:, :3].square()).sum(1, keepdim=True)
    weights = (variances.clamp_min(0) + 1e-4).reciprocal().square().square()
    total = weight = 0
    for top, left in ((0, 0), (0, size), (size, 0), (size, size)):
        here = (..., slice(top, top + height), slice(left, left + width))
        total, weight = total + means[here] * weights[here], weight + weights[here]
    return total / weight


def neon(video: torch.Tensor, look: Look) -> torch.Tensor:
    """Edges (Sobel) that glow in the colour of their direction, on a dark picture."""
    grey = functional.avg_pool2d(video.mean(1, keepdim=True), 3, stride=1, padding=1, count_include_pad=False)
    sobel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]], device=video.device)
    slopes = functional.conv2d(
        functional.pad(grey, (1, 1, 1, 1), mode="replicate"), torch.stack((sobel, sobel.T))[:, None]
    )
    across, down = slopes[:, :1], slopes[:, 1:]
    squared = across.square() + down.square()
    thirds = torch.tensor([0.0, 2.0, 4.0], device=video.device).mul(math.pi / 3).view(1, 3, 1, 1)
    # the cosine of twice the angle of the slope plus each third of the circle
    turn = (across.square() - down.square()) * thirds.cos() - 2 * across * down * thirds.sin()
    colour = 0.6 + 0.4 * turn / (squared + 1e-12)
    edges = functional.max_pool2d(squared.sqrt(), 2 * (look.detail // 2) + 1, 1, look.detail // 2)
    return 0.15 * video + colour * torch.tanh(3 * edges)


def dream(video: torch.Tensor, look: Look) -> torch.Tensor:
    """Three convolutions with random weights from the seed: the camera's shapes in random colours."""
    random = torch.Generator().manual_seed(look.seed)

    def layer(values: torch.Tensor, channels: int, size: int, stride: int = 1) -> torch.Tensor:
        inputs = values.shape[1]
        weights = torch.randn(channels, inputs, size, size, generator=random) / math.sqrt(inputs * size * size)
        values = functional.conv2d(values, weights.to(values.device), stride=stride, padding=size // 2)
        return functional.instance_norm(values)  # so that any network has contrast

    values = torch.tanh(layer(video, 12, 5, stride=2))
    values = torch.tanh(layer(values, 12, 3))
    colours = torch.sigmoid(1.5 * layer(values, 3, 1))
    return functional.interpolate(colours, video.shape[-2:], mode="bilinear")
