"""Print how long a frame and its parts take, and what a new prompt costs: `python speed.py [key=value ...]`.

The keys are those of `config.yml`. On a GPU the times are those of the device.
"""

import statistics
import sys
from pathlib import Path

import torch
import yaml
from few_steps import FewSteps
from live import DiffusersLive, Look
from prompts import Prompts
from scene import draw

from reactor_trio.adapters import StepTimer

FRAMES = 20
PROMPT = "a harbour at night, watercolour"


def median(device: torch.device, work) -> float:
    """Milliseconds; the first two calls do not count."""
    timer, times = StepTimer(device), []
    for _ in range(FRAMES + 2):
        with timer:
            work()
        times.append(1000 * timer.wait())
    return statistics.median(times[2:])


@torch.inference_mode()
def main() -> None:
    config = yaml.safe_load(Path(__file__).with_name("config.yml").read_text())
    config |= {key: yaml.safe_load(value) for key, _, value in (argument.partition("=") for argument in sys.argv[1:])}
    model = DiffusersLive()
    model.load(config)
    device, plain = model.device, draw(0, model.width, model.height)
    print(f"{model.width} x {model.height} on {device}, {model.dtype}, {torch.get_num_threads()} threads of the host")

    video = model.fitted(plain)
    latents = model.latents(video)
    print(f"autoencoder, in:  {median(device, lambda: model.latents(video)):6.1f} ms")
    for rows in (1, 2, 4):
        noisy, times = latents.repeat(rows, 1, 1, 1), torch.full((rows,), 499, device=device)
        print(f"UNet, rows: {rows}     {median(device, lambda: model.network(model.first, noisy, times)):6.1f} ms")  # noqa: B023
    print(f"autoencoder, out: {median(device, lambda: model.picture(latents)):6.1f} ms")
    for steps in (1, 2, 4):
        for stream_batch in (False, True):
            sampler = FewSteps(model.pipeline.scheduler, stream_batch=stream_batch)
            look = Look(steps=steps)
            time = median(device, lambda: model.paint(plain, model.first, look, sampler))  # noqa: B023
            name = f"a frame, steps: {steps}{', stream batch' if stream_batch else ''}"
            print(f"{name:33} {time:6.1f} ms {1000 / time:5.1f} fps")
    print(f"a prompt, encoded: {median(device, lambda: model.encode(PROMPT)):6.1f} ms")
    if not config.get("model"):
        add_large_text_encoder(model)
        time = median(device, lambda: model.encode(PROMPT))
        print(f"a prompt, encoded, with a text encoder as large as that of Stable Diffusion 1: {time:.0f} ms")
    for name, time in stalls(model, plain).items():
        print(f"longest frame while a prompt is encoded {name}: {time:.0f} ms")


def add_large_text_encoder(model: DiffusersLive) -> None:
    """Let each prompt also run through CLIP ViT-L/14's text encoder, with random weights: the toy's takes no time."""
    from transformers import CLIPTextConfig, CLIPTextModel

    sizes = CLIPTextConfig(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, eos_token_id=0
    )
    large, tokens, encode = CLIPTextModel(sizes).eval(), torch.zeros(1, 77, dtype=torch.long), model.encode
    model.encode = lambda text: (large(tokens), encode(text))[1]


def stalls(model: DiffusersLive, plain) -> dict[str, float]:
    """Milliseconds of the longest frame that a new prompt makes, encoded between two frames or on the thread of `Prompts`.

    The median of five prompts.
    """
    sampler, look, medians = model.sampler(), Look(), {}
    for name in ("between two frames", "on its thread"):
        timer, longest, prompts = StepTimer(), [], Prompts(model.encode, model.device)
        for number in range(5):
            words, text, times = None, f"{PROMPT} {number}", []
            while words is None:
                with timer:
                    words = model.encode(text) if name == "between two frames" else prompts.find(text)
                    model.paint(plain, model.first, look, sampler).cpu()
                times.append(1000 * timer.wait())
            longest.append(max(times))
        medians[name] = statistics.median(longest)
    return medians


if __name__ == "__main__":
    main()
