"""A pipeline like Stable Diffusion in miniature, on disk: real classes, real files, and weights that nobody has trained.

`python toy.py FOLDER` writes one. It is what `live.py` loads if `config.yml` names no checkpoint, and what the tests load.
"""

import sys
from pathlib import Path

import torch
from diffusers import AutoencoderKL, AutoencoderTiny, EulerDiscreteScheduler, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

#: a picture is 4 times as wide and high as its latents
SIZE = 256
CHANNELS = 8
LOUD = 40
WORDS = 32  # that a prompt may have, with its start and end


def write_toy(folder: Path | str, seed: int = 7) -> None:
    """Write `pipeline` and `tiny_vae` into a folder, for `from_pretrained`: 1.4 MB, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pipeline = StableDiffusionPipeline(
            vae=AutoencoderKL(
                down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
                block_out_channels=(CHANNELS,) * 3, norm_num_groups=CHANNELS, latent_channels=4,
            ),
            text_encoder=text_encoder(),
            tokenizer=tokenizer(),
            unet=unet(),
            # Less noise than in Stable Diffusion: this network cannot remove it, and the picture should be seen.
            scheduler=EulerDiscreteScheduler(
                beta_start=0.0001, beta_end=0.002, beta_schedule="scaled_linear", timestep_spacing="trailing", steps_offset=1
            ),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )  # fmt: skip
    pipeline.save_pretrained(Path(folder) / "pipeline", safe_serialization=True)
    tiny_autoencoder().save_pretrained(Path(folder) / "tiny_vae", safe_serialization=True)


def tokenizer() -> CLIPTokenizer:
    """Every byte is a token: a vocabulary that can spell any prompt and fits on a page."""
    signs = [chr(code) for code in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]]
    names = [*signs, *(f"{sign}</w>" for sign in signs), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={name: number for number, name in enumerate(names)}, merges=[], model_max_length=WORDS)


def text_encoder() -> CLIPTextModel:
    size = len(tokenizer())
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=WORDS, projection_dim=32, bos_token_id=size - 2, eos_token_id=size - 1,
        )
    )  # fmt: skip


def unet() -> UNet2DConditionModel:
    network = UNet2DConditionModel(
        sample_size=SIZE // 4, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32, attention_head_dim=1,
    )  # fmt: skip
    for name, weights in network.named_parameters():
        if "attn2.to_out" in name:  # so that one sees that the words arrive
            weights.data *= LOUD
    network.conv_out.weight.data *= 2
    return network


def tiny_autoencoder() -> AutoencoderTiny:
    """An autoencoder that was not trained, but set by hand: the latents are the picture at a quarter of its size."""
    vae = AutoencoderTiny(
        encoder_block_out_channels=(CHANNELS,) * 3, decoder_block_out_channels=(CHANNELS,) * 3,
        num_encoder_blocks=(1, 1, 1), num_decoder_blocks=(1, 1, 1),
    )  # fmt: skip
    for module in vae.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.zeros_(module.weight)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
    for part in (vae.encoder, vae.decoder):
        convolutions = [module for module in part.layers if isinstance(module, torch.nn.Conv2d)]
        for convolution in convolutions:
            for channel in range(3):  # red, green and blue pass, a little blurred
                convolution.weight.data[channel, channel] = torch.tensor([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
    # Latents lie around 0, from -1.5 to 1.5; the picture within the network lies from 0 to 1.
    last, first = vae.encoder.layers[-1], vae.decoder.layers[0]
    last.weight.data *= 3
    last.bias.data[:3] = -1.5
    first.weight.data /= 3
    first.bias.data[:3] = 0.5
    return vae


if __name__ == "__main__":
    write_toy(sys.argv[1])
