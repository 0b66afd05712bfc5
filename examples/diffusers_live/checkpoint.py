"""From a name in `config.yml` to a pipeline of the library `diffusers`: a folder, or what is in the cache of the hub."""

import pkgutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from reactor_trio import progress
from reactor_trio.adapters import prefetch

WITH_WEIGHTS = ("unet", "vae", "text_encoder", "text_encoder_2", "safety_checker")


def load_pipeline(config: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Any:
    """The pipeline on the device. Raises one line that says what to do, if the checkpoint is absent or of another kind."""
    try:
        progress(None, "importing diffusers")
        import diffusers
        import transformers
    except ImportError as error:
        raise ModuleNotFoundError(f'{error}; install it with: pip install "reactor-trio[diffusers]"') from None
    diffusers.utils.logging.disable_progress_bar()  # `progress` says how far it is
    transformers.utils.logging.disable_progress_bar()
    diffusers.utils.logging.set_verbosity_error()  # it warns of each tiny autoencoder
    transformers.utils.logging.set_verbosity_error()  # it warns of image processors that nobody uses here
    options = {"dtype": dtype, "use_safetensors": True, "local_files_only": True}
    with tempfile.TemporaryDirectory() as folder:
        model, vae = config.get("model"), config.get("vae")
        if not model:
            from toy import write_toy

            progress(None, "writing a toy pipeline with random weights")
            write_toy(folder)
            model, vae = f"{folder}/pipeline", vae or f"{folder}/tiny_vae"
        variant = config.get("variant") or None
        pipeline = diffusers.DiffusionPipeline.from_pretrained(checked(model, variant), variant=variant, **options)
        if not hasattr(pipeline, "unet") or not hasattr(pipeline, "encode_prompt"):
            raise ValueError(
                f"{model} is a {type(pipeline).__name__}; this example takes pipelines with a UNet and a prompt: "
                "Stable Diffusion, SD-Turbo, SDXL-Turbo, latent consistency models"
            )
        if vae:
            pipeline.vae = diffusers.AutoencoderTiny.from_pretrained(prefetch(vae), **options)
    progress(None, f"copying the weights to {device}")
    pipeline.to(device)
    if dtype == torch.float16 and hasattr(pipeline, "text_encoder_2") and pipeline.vae.config.force_upcast:
        pipeline.vae.to(torch.float32)  # the autoencoder of SDXL overflows in 16 bits
    for name in WITH_WEIGHTS:
        if getattr(pipeline, name, None) is not None:
            getattr(pipeline, name).requires_grad_(False).eval()
    return pipeline


def checked(model: str, variant: str | None) -> Path:
    """The folder of a pipeline, its weights read once."""
    ending = f"*.{variant}.safetensors" if variant else "*.safetensors"
    folder = prefetch(model, files=("*.json", "*.txt", f"*/{ending}"))
    if not (folder / "model_index.json").is_file():
        raise ValueError(f"{folder} has no model_index.json: it is not a pipeline that diffusers has saved")
    for name in WITH_WEIGHTS:
        if (folder / name).is_dir() and not any((folder / name).glob(ending)):
            raise ValueError(f"{folder / name} has no {ending}; pickles may run code and are not loaded")
    return folder


def named(place: str) -> Any:
    """The function that `module:function` names."""
    try:
        return pkgutil.resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"safety: {place!r} names no function, as module:function does ({error})") from None
