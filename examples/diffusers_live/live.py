"""Repaints your camera, a picture or a drawn landscape in the words of a prompt, with a pipeline of diffusers."""

import io
import logging
from functools import partial
from typing import Any

import numpy as np
import torch
import trio
from checkpoint import load_pipeline, named
from few_steps import FewSteps
from PIL import Image, ImageDraw, ImageOps, UnidentifiedImageError
from prompts import Crossfade, Prompts, Words
from scene import draw
from torch.nn import functional

from reactor_trio import (
    Idle,
    Input,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
    progress,
    to_frames,
)
from reactor_trio.adapters import warm_up
from reactor_trio.errors import CommandError

FIRST_PROMPT = "a village by the sea, oil painting"
MOST_STEPS = 4
CAMERA_PATIENCE = 1.0  # seconds without a frame after which the camera is off
MOST_PIXELS = 50e6  # of an uploaded picture
log = logging.getLogger("diffusers_live")


class Devices(Input):
    camera: Video


class Painted(Output):
    main_video: Video


class Look(InputState):
    prompt: str = InputField(
        default=FIRST_PROMPT, min_length=1, max_length=300, moderate=True,
        description="What you want to see",
    )  # fmt: skip
    strength: float = InputField(
        default=0.5, ge=0.05, le=1.0, description="How much noise is added, and so how much is repainted"
    )
    steps: int = InputField(default=1, ge=1, le=MOST_STEPS, description="Denoising steps: more take longer and paint finer")
    seed: int = InputField(default=7, ge=0, le=9999, description="Which noise; Space takes the next one")
    blend: int = InputField(
        default=12, ge=0, le=120, unit="frames", advanced=True, description="How long a new prompt takes to replace the last"
    )
    mirror: bool = InputField(default=True, advanced=True, description="Show the camera as a mirror does")
    picture: UploadedFile | None = InputField(
        default=None, accept=["image/*"], description="What is painted while there is no camera"
    )

    _still: Any = None  # the uploaded picture, uint8 (H, W, 3)


class PromptShown(ModelMessage):
    """A new prompt is encoded, and begins to show with the next frame."""

    prompt: str
    frames: int  # that were shown with the old prompt meanwhile


class PictureHidden(ModelMessage):
    """The safety hook has refused a picture, which shows as its mean colour. Sent for the first of several in a row."""


class DiffusersLive(ReactorPipeline):
    state: Look
    input: Devices
    fps = 30
    buffer_size = 1  # of a camera the newest frame counts

    def load(self, config: dict[str, Any]) -> None:
        self.device = torch.device(config.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.dtype = getattr(torch, config.get("dtype") or ("float16" if self.device.type == "cuda" else "float32"))
        if self.device.type == "cpu":
            torch.set_num_threads(config.get("threads", 1))
        pipeline = self.pipeline = load_pipeline(config, self.device, self.dtype)
        self.set_size(config.get("width"), config.get("height"))
        self.stream_batch, self.guidance = config.get("stream_batch", False), config.get("guidance", 1.0)
        self.caption = None if config.get("model") else caption("random weights: no art (README.md)", self.width)
        self.allowed = self.safety_of(config.get("safety"))
        progress(None, "encoding the first prompt")
        self.prompts = Prompts(self.encode, self.device)
        with torch.inference_mode():
            self.nothing, self.first = self.encode(""), self.encode(FIRST_PROMPT)
        self.unet, self.consistency = pipeline.unet, None
        if size := pipeline.unet.config.time_cond_proj_dim:  # a latent consistency model takes its guidance as an input
            scale = torch.tensor([self.guidance - 1.0])
            self.consistency = pipeline.get_guidance_scale_embedding(scale, size).to(self.device, self.dtype)
        text = "warming up"
        if mode := config.get("compile"):
            text = "compiling, which takes minutes"
            self.unet = torch.compile(pipeline.unet, mode=mode, dynamic=False)
            pipeline.vae.encoder = torch.compile(pipeline.vae.encoder, mode=mode, dynamic=False)
            pipeline.vae.decoder = torch.compile(pipeline.vae.decoder, mode=mode, dynamic=False)
        landscape = draw(0, self.width, self.height)
        # A stream batch has another shape for each number of steps, and each shape is compiled by itself.
        for steps in range(1, MOST_STEPS + 1) if self.stream_batch else (1,):
            sampler, look = self.sampler(), Look(steps=steps)
            warm_up(lambda: self.paint(landscape, self.first, look, sampler), device=self.device, text=text)  # noqa: B023
        if not config.get("model"):
            log.info("no checkpoint is named: the weights are random, which shows how everything plays together, and no art")

    async def inference(self):
        sampler, fade = self.sampler(), Crossfade(self.first)
        asked, waited, hidden, camera_until = FIRST_PROMPT, 0, False, -1.0
        while True:
            look = self.state
            words = self.first if look.prompt == FIRST_PROMPT else self.prompts.find(look.prompt)
            if words is not None:
                if look.prompt != asked:
                    await self.send(PromptShown(prompt=look.prompt, frames=waited))
                    asked, waited = look.prompt, 0
                fade.aim(words, look.blend)

            frames, now = self.input.camera.try_read(), trio.current_time()
            if frames:
                camera_until = now + CAMERA_PATIENCE
                plain = frames[-1].data[:, :: -1 if look.mirror else 1]
            elif now < camera_until:
                yield Idle  # the next frame of the camera wakes us
                continue
            elif look._still is not None:
                plain = look._still
            else:
                plain = draw(now, self.width, self.height)

            picture = self.paint(plain, fade.next(), look, sampler)
            waited += words is None  # the old prompt goes on meanwhile
            if self.allowed is not None and not self.allowed(picture):
                if not hidden:
                    await self.send(PictureHidden())
                hidden, picture = True, mean_colour(picture)
            else:
                hidden = False
            yield Painted(main_video=self.labelled(picture))

    @event(name="key_space", description="Other noise")
    def other_noise(self) -> None:
        self.state.seed = (self.state.seed + 1) % 10_000

    @event(description="A picture to paint while there is no camera")
    def set_picture(self, picture: UploadedFile | None = InputField(accept=["image/*"])) -> None:
        self.state._still = None if picture is None else opened(picture)
        self.state.picture = picture

    @torch.inference_mode()
    def paint(self, plain: np.ndarray, words: Words, look: Look, sampler: FewSteps) -> torch.Tensor:
        """A frame in the words of a prompt: uint8 (H, W, 3) of any size in, uint8 (1, height, width, 3) on the device."""
        latents = self.latents(self.fitted(plain))
        network = partial(self.network, words)
        return self.picture(sampler(network, latents, strength=look.strength, steps=look.steps, seed=look.seed))

    def latents(self, video: torch.Tensor) -> torch.Tensor:
        """What the autoencoder makes of a picture."""
        vae = self.pipeline.vae
        encoded = vae.encode(video.to(vae.dtype))
        latents = encoded.latents if hasattr(encoded, "latents") else encoded.latent_dist.mode()
        return (latents * vae.config.scaling_factor).to(self.dtype)

    def picture(self, latents: torch.Tensor) -> torch.Tensor:
        """What the autoencoder makes of latents: a frame, uint8 (1, height, width, 3)."""
        vae = self.pipeline.vae
        return to_frames(vae.decode((latents / vae.config.scaling_factor).to(vae.dtype)).sample, range=(-1, 1))

    def network(self, words: Words, noisy: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """The UNet's output for rows of latents, with guidance if there is any."""
        if self.guidance <= 1 or self.consistency is not None:
            return self.unet_of(words, noisy, times)
        # Classifier-free guidance: away from what the network makes of no prompt.
        both = self.nothing.rows(len(noisy)).followed_by(words.rows(len(noisy)))
        without, guess = self.unet_of(both, noisy.repeat(2, 1, 1, 1), times.repeat(2)).chunk(2)
        return without + self.guidance * (guess - without)

    def unet_of(self, words: Words, noisy: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        words, more = words.rows(len(noisy)), {}
        if words.pooled is not None:  # SDXL
            sizes = torch.tensor([self.height, self.width, 0, 0, self.height, self.width]).to(noisy)
            more["added_cond_kwargs"] = {"text_embeds": words.pooled, "time_ids": sizes.expand(len(noisy), -1)}
        if self.consistency is not None:
            more["timestep_cond"] = self.consistency.expand(len(noisy), -1)
        return self.unet(noisy, times, encoder_hidden_states=words.tokens, return_dict=False, **more)[0]

    def encode(self, text: str) -> Words:
        """A prompt as the UNet reads it."""
        encoded = self.pipeline.encode_prompt(
            prompt=text, device=self.device, num_images_per_prompt=1, do_classifier_free_guidance=False
        )
        return Words(encoded[0], encoded[2] if len(encoded) > 2 else None)  # SDXL has four parts, two of them None

    def sampler(self) -> FewSteps:
        return FewSteps(self.pipeline.scheduler, stream_batch=self.stream_batch)

    def fitted(self, picture: np.ndarray) -> torch.Tensor:
        """The middle of a picture in our shape: (1, 3, height, width) from -1 to 1, on the device."""
        height, width = picture.shape[:2]
        scale = max(self.height / height, self.width / width)
        rows, columns = min(height, round(self.height / scale)), min(width, round(self.width / scale))
        top, left = (height - rows) // 2, (width - columns) // 2
        part = torch.from_numpy(np.ascontiguousarray(picture[top : top + rows, left : left + columns])).to(self.device)
        video = part.permute(2, 0, 1)[None].float() / 127.5 - 1
        if video.shape[-2:] == (self.height, self.width):
            return video
        return functional.interpolate(video, (self.height, self.width), mode="bilinear", antialias=True)

    def set_size(self, width: int | None, height: int | None) -> None:
        """The size of pictures; by default the one that the checkpoint was trained for."""
        unet, scale = self.pipeline.unet.config, self.pipeline.vae_scale_factor
        self.width, self.height = (size or unet.sample_size * scale for size in (width, height))
        multiple = scale * 2 ** (len(unet.block_out_channels) - 1)
        if self.width % multiple or self.height % multiple:
            raise ValueError(f"width and height must be multiples of {multiple}, not {self.width} x {self.height}")

    def safety_of(self, place: str | None) -> Any:
        """The hook that says whether a picture may be shown; None if there is none."""
        if place and place != "checkpoint":
            return named(place)
        if getattr(self.pipeline, "safety_checker", None) is None:
            return None
        return self.approved

    def approved(self, frames: torch.Tensor) -> bool:
        """Whether the checkpoint's own safety checker finds nothing."""
        picture = frames.permute(0, 3, 1, 2) / 127.5 - 1
        _, found = self.pipeline.run_safety_checker(picture, self.device, self.dtype)
        return not any(found)

    @torch.inference_mode()  # in which the frames were made, so that they may be written to
    def labelled(self, frames: torch.Tensor) -> torch.Tensor:
        if self.caption is not None:
            frames[:, -len(self.caption) :] = self.caption
        return frames


def opened(file: UploadedFile) -> np.ndarray:
    """An uploaded picture, uint8 (H, W, 3)."""
    try:
        picture = Image.open(io.BytesIO(file.data), formats=("JPEG", "PNG", "WEBP"))
        if picture.width * picture.height > MOST_PIXELS:
            raise CommandError("too_large", f"{file.name} has {picture.width} x {picture.height} pixels; at most 50 million")
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        raise CommandError("not_a_picture", f"{file.name} is no picture that can be opened: JPEG, PNG or WebP") from None


def mean_colour(frames: torch.Tensor) -> torch.Tensor:
    return frames.float().mean((1, 2), keepdim=True).byte().expand_as(frames).clone()


def caption(text: str, width: int) -> torch.Tensor:
    """A line of text for the bottom of a picture, uint8 (16, width, 3)."""
    line = Image.new("RGB", (width, 16))
    ImageDraw.Draw(line).text((4, 2), text, fill="white")
    return torch.from_numpy(np.array(line))
