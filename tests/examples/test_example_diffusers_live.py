"""`examples/diffusers_live` with the real library, and tiny pipelines of random weights, on disk as checkpoints are."""

from __future__ import annotations

import importlib
import io
import re
import sys
from concurrent.futures import Executor, Future
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import trio
from PIL import Image

from reactor_trio.errors import CommandError, ModelFailed
from reactor_trio.testing import open_server

pytestmark = pytest.mark.usefixtures("torch_threads")

SMALL = ("width=64", "height=64")
STEP = 0.25  # of virtual time


class ByHand(Executor):
    """A thread that works when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future, object, tuple]] = []

    def submit(self, function, /, *arguments):
        self.waiting.append((Future(), function, arguments))
        return self.waiting[-1][0]

    def work(self) -> list[str]:
        """Does what waits and was not cancelled, and returns for what."""
        done = []
        while self.waiting:
            future, function, arguments = self.waiting.pop(0)
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*arguments))
                except ValueError as error:
                    future.set_exception(error)
                done.append(arguments[0])
        return done


@pytest.fixture
def live(example):
    return example("diffusers_live", *SMALL)


@pytest.fixture
def module(live):
    """`module("toy")`: a module of the example."""
    return importlib.import_module


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture
def toy(module, checkpoints):
    """The folder of the toy's pipeline and tiny autoencoder, written once."""
    if not (checkpoints / "pipeline").is_dir():
        module("toy").write_toy(checkpoints)
    return checkpoints


@pytest.fixture
def loaded(live):
    """A model after `load`, with some of its configuration changed."""

    def load(**config):
        model = live.model()
        model.load(live.config | config)
        return model

    return load


@pytest.fixture(scope="session")
def pipelines():
    """The pipelines of all servers, by the name of their checkpoint: sessions change nothing in them."""
    return {}


@pytest.fixture
def opened(live, module, pipelines, monkeypatch):
    load = module("checkpoint").load_pipeline

    def load_once(config, *place):
        if config["model"] not in pipelines:
            pipelines[config["model"]] = load(config, *place)
        return pipelines[config["model"]]

    monkeypatch.setattr(module("live"), "load_pipeline", load_once)
    moderate = module("guard").moderate
    return lambda **config: open_server(live.model, config=live.config | config, step_cost=STEP, moderate=moderate)


def scene(number=5):
    return np.random.default_rng(number).integers(0, 256, (48, 80, 3), np.uint8)


def png(picture, kind="PNG"):
    data = io.BytesIO()
    Image.fromarray(picture).save(data, kind)
    return data.getvalue()


# ---- the sampler ----------------------------------------------------------------------------------------------------


SCHEDULER = SimpleNamespace(
    alphas_cumprod=torch.linspace(0.999, 0.01, 1000), config=SimpleNamespace(prediction_type="epsilon")
)


def network(noisy, times):
    """Something that depends on each row and on its time, and on nothing else."""
    return torch.tanh(noisy * (1 + times.view(-1, 1, 1, 1) / 1000)) + noisy.roll(1, -1) / 4


def frames(count):
    return [torch.randn(1, 4, 6, 5, generator=torch.Generator().manual_seed(number)) for number in range(count)]


def test_timesteps_go_down_evenly_from_the_strength(module):
    timesteps = module("few_steps").timesteps
    assert timesteps(1.0, 4) == [999, 749, 499, 249]
    assert timesteps(0.5, 1) == [499]
    assert timesteps(0.6, 2) == [599, 299]
    assert timesteps(0.001, 4) == [0, 0, 0, 0]


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_stream_batch_makes_the_same_pictures_in_one_call_a_frame(module, steps):
    sampler = module("few_steps").FewSteps
    rows = []

    def counted(noisy, times):
        rows.append(len(noisy))
        return network(noisy, times)

    look = {"strength": 0.8, "steps": steps, "seed": 3}
    one, batch = sampler(SCHEDULER), sampler(SCHEDULER, stream_batch=True)
    expected = [one(network, latents, **look) for latents in frames(8)]
    made = [batch(counted, latents, **look) for latents in frames(8)]
    assert rows == [steps] * 8
    for now, then in zip(made[steps - 1 :], expected, strict=False):
        assert torch.allclose(now, then, atol=1e-5)


@pytest.mark.parametrize("change", [{"seed": 4}, {"strength": 0.5}, {"steps": 2}])
def test_another_look_begins_with_the_frame_at_hand(module, change):
    sampler = module("few_steps").FewSteps
    look = {"strength": 0.8, "steps": 3, "seed": 3}
    batch, fresh = (sampler(SCHEDULER, stream_batch=True) for _ in range(2))
    first, second, third = frames(3)
    batch(network, first, **look)
    batch(network, second, **look)
    assert torch.equal(batch(network, third, **look | change), fresh(network, third, **look | change))


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_a_network_that_knows_the_picture_gives_it_back(module, prediction):
    (picture,) = frames(1)
    scheduler = SimpleNamespace(alphas_cumprod=SCHEDULER.alphas_cumprod, config=SimpleNamespace(prediction_type=prediction))

    def knows(noisy, times):
        alpha = SCHEDULER.alphas_cumprod[times].view(-1, 1, 1, 1)
        noise = (noisy - alpha.sqrt() * picture) / (1 - alpha).sqrt()
        velocity = alpha.sqrt() * noise - (1 - alpha).sqrt() * picture
        return {"epsilon": noise, "v_prediction": velocity, "sample": picture.expand_as(noisy)}[prediction]

    made = module("few_steps").FewSteps(scheduler)(knows, picture, strength=1.0, steps=4, seed=1)
    assert torch.allclose(made, picture, atol=1e-4)


def test_an_unknown_kind_of_prediction_is_refused(module):
    scheduler = SimpleNamespace(alphas_cumprod=SCHEDULER.alphas_cumprod, config=SimpleNamespace(prediction_type="flow"))
    with pytest.raises(ValueError, match="prediction_type is 'flow': not known here"):
        module("few_steps").FewSteps(scheduler)


# diffusers calls numpy.array(tensor), and torch.Tensor.__array__ has no argument `copy` yet
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning:diffusers")
def test_one_step_is_what_the_librarys_own_pipeline_computes(module, loaded, toy):
    from diffusers import AutoencoderTiny, StableDiffusionImg2ImgPipeline

    model, look = loaded(), sys.modules["live"].Look(strength=0.5, steps=1, seed=7)
    plain = scene()[:, :48].repeat(2, axis=0)[:64].repeat(2, axis=1)[:, :64].copy()
    ours = model.paint(plain, model.encode("a boat"), look, model.sampler())
    theirs = StableDiffusionImg2ImgPipeline.from_pretrained(
        toy / "pipeline", vae=AutoencoderTiny.from_pretrained(toy / "tiny_vae"), safety_checker=None
    )
    theirs.set_progress_bar_config(disable=True)
    picture = theirs(
        "a boat", image=torch.from_numpy(plain).permute(2, 0, 1)[None] / 255, strength=0.5, num_inference_steps=2,
        guidance_scale=0.0, generator=torch.Generator().manual_seed(7), output_type="pt",
    ).images  # fmt: skip
    assert np.abs(ours[0].numpy() - 255 * picture[0].permute(1, 2, 0).numpy()).max() <= 1


# ---- checkpoints ----------------------------------------------------------------------------------------------------


def painted(model, **look):
    return model.paint(scene(), model.first, sys.modules["live"].Look(**look), model.sampler()).numpy()


def test_without_a_name_a_toy_is_written_loaded_and_said(loaded, caplog):
    with caplog.at_level("INFO", "diffusers_live"):
        model = loaded()
    assert "random weights" not in caplog.text
    assert "the weights are random" in caplog.text
    assert model.caption is not None
    assert painted(model).shape == (1, 64, 64, 3)


def test_a_folder_is_loaded_as_the_toy_is(loaded, toy):
    named = loaded(model=str(toy / "pipeline"), vae=str(toy / "tiny_vae"))
    assert named.caption is None
    assert np.array_equal(painted(named), painted(loaded()))


def test_the_checkpoints_own_autoencoder_and_size_are_the_defaults(loaded, toy):
    model = loaded(model=str(toy / "pipeline"), width=None, height=None)
    assert type(model.pipeline.vae).__name__ == "AutoencoderKL"
    assert painted(model).shape == (1, 256, 256, 3)


def test_a_name_in_the_cache_of_the_hub_is_loaded(loaded, toy, tmp_path, monkeypatch):
    folder = tmp_path / "models--ada--turbo"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / ("0" * 40)).symlink_to(toy / "pipeline")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert type(loaded(model="ada/turbo").pipeline).__name__ == "StableDiffusionPipeline"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_another_number_format(loaded, dtype):
    model = loaded(dtype=dtype)
    assert {model.pipeline.unet.dtype, model.pipeline.vae.dtype, model.first.tokens.dtype} == {getattr(torch, dtype)}
    assert np.abs(painted(model).astype(int) - painted(loaded())).mean() < 4


def test_a_variant_is_of_the_pipelines_files_alone(loaded, toy, tmp_path):
    from diffusers import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(toy / "pipeline", safety_checker=None)
    pipeline.save_pretrained(tmp_path, variant="fp16")
    model = loaded(model=str(tmp_path), vae=str(toy / "tiny_vae"), variant="fp16")
    assert np.array_equal(painted(model), painted(loaded()))


def test_a_name_that_is_nowhere_says_in_one_line_how_to_get_it(loaded, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    line = "'ada/turbo' is neither a folder nor in the local cache; fetch it with: hf download ada/turbo"
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(line)}$"):
        loaded(model="ada/turbo")


def test_without_the_library_the_line_names_the_extra(loaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape('install it with: pip install "reactor-trio[diffusers]"')):
        loaded()


def test_pickles_are_not_loaded(loaded, toy, tmp_path):
    copied = tmp_path / "pickled"
    for path in (toy / "pipeline").rglob("*"):
        if path.is_file():
            target = copied / path.relative_to(toy / "pipeline")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    weights = copied / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ValueError, match=r"unet has no \*\.safetensors; pickles may run code and are not loaded$"):
        loaded(model=str(copied))


def test_an_object_that_is_not_a_pipeline_is_refused(loaded, toy):
    with pytest.raises(ValueError, match=r"tiny_vae has no model_index.json: it is not a pipeline that diffusers has saved"):
        loaded(model=str(toy / "tiny_vae"))


def test_a_pipeline_without_prompts_is_refused(loaded, toy, tmp_path, module):
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

    unet = UNet2DModel(
        sample_size=8, block_out_channels=(8, 8), norm_num_groups=8, layers_per_block=1,
        down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
    )  # fmt: skip
    DDPMPipeline(unet, DDPMScheduler()).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a DDPMPipeline; this example takes pipelines with a UNet and a prompt"):
        loaded(model=str(tmp_path))


def test_sizes_that_the_network_cannot_have_are_refused(loaded):
    with pytest.raises(ValueError, match="width and height must be multiples of 8, not 100 x 64"):
        loaded(width=100)


@pytest.fixture
def sdxl(module, toy, tmp_path):
    """A folder with a pipeline of SDXL."""
    from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    toys = module("toy")
    first, second = toys.text_encoder(), toys.text_encoder()
    second = CLIPTextModelWithProjection(CLIPTextConfig(**second.config.to_dict()))
    unet = UNet2DConditionModel(
        sample_size=16, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=64, attention_head_dim=1, addition_embed_type="text_time", addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + 32,
    )  # fmt: skip
    vae = AutoencoderKL.from_pretrained(toy / "pipeline" / "vae")
    StableDiffusionXLPipeline(
        vae, first, second, toys.tokenizer(), toys.tokenizer(), unet,
        EulerDiscreteScheduler(steps_offset=1), add_watermarker=False,
    ).save_pretrained(tmp_path)  # fmt: skip
    return tmp_path


def test_sdxl_gets_its_second_text_and_the_size(loaded, sdxl):
    model = loaded(model=str(sdxl), guidance=1.5)
    assert model.first.tokens.shape == (1, 32, 64)
    assert model.first.pooled.shape == (1, 32)
    seen = []
    unet, model.unet = model.unet, lambda *arguments, **options: (seen.append(options), unet(*arguments, **options))[1]
    assert painted(model, steps=2).shape == (1, 64, 64, 3)
    added = seen[0]["added_cond_kwargs"]
    assert added["time_ids"].tolist() == [[64, 64, 0, 0, 64, 64]] * 2
    assert torch.equal(added["text_embeds"][1:], model.first.pooled)


def test_only_the_autoencoder_of_sdxl_stays_in_32_bits(loaded, sdxl, toy):
    own, tiny = loaded(model=str(sdxl), dtype="float16"), loaded(model=str(sdxl), vae=str(toy / "tiny_vae"), dtype="float16")
    assert [model.pipeline.unet.dtype for model in (own, tiny)] == [torch.float16] * 2
    assert [model.pipeline.vae.dtype for model in (own, tiny)] == [torch.float32, torch.float16]
    assert painted(own).shape == (1, 64, 64, 3)


def test_a_latent_consistency_model_gets_the_guidance_as_an_input(loaded, toy, tmp_path, module):
    from diffusers import StableDiffusionPipeline, UNet2DConditionModel

    pipeline = StableDiffusionPipeline.from_pretrained(toy / "pipeline", safety_checker=None)
    pipeline.register_modules(unet=UNet2DConditionModel(**dict(pipeline.unet.config) | {"time_cond_proj_dim": 16}))
    pipeline.save_pretrained(tmp_path)
    weak, strong = (loaded(model=str(tmp_path), guidance=guidance) for guidance in (1.0, 8.0))
    assert weak.consistency.shape == (1, 16)
    assert not np.array_equal(painted(weak), painted(strong))


def test_guidance_leads_away_from_the_picture_of_no_prompt(loaded):
    model = loaded(guidance=2.0)
    calls = []

    def unet(noisy, times, *, encoder_hidden_states, return_dict):
        calls.append((len(noisy), len(times)))
        return (encoder_hidden_states.mean((1, 2)).view(-1, 1, 1, 1).expand_as(noisy),)

    model.unet = unet
    guess = model.network(model.first, torch.zeros(3, 4, 8, 8), torch.tensor([9, 5, 1]))
    assert calls == [(6, 6)]
    without, full = (words.tokens.mean() for words in (model.nothing, model.first))
    assert torch.allclose(guess, (without + 2 * (full - without)).expand_as(guess))


@pytest.mark.parametrize(("stream_batch", "rows"), [(False, {1}), (True, {1, 2, 3, 4})])
def test_every_shape_is_compiled_while_the_model_loads(loaded, monkeypatch, stream_batch, rows):
    compiled, shapes = [], set()

    def compiled_as(module, *, mode, dynamic):
        compiled.append((type(module).__name__, mode, dynamic))
        if len(compiled) > 1:
            return module
        return lambda noisy, *arguments, **options: (shapes.add(len(noisy)), module(noisy, *arguments, **options))[1]

    monkeypatch.setattr(torch, "compile", compiled_as)
    loaded(compile="reduce-overhead", stream_batch=stream_batch)
    kinds = ["UNet2DConditionModel", "EncoderTiny", "DecoderTiny"]
    assert compiled == [(kind, "reduce-overhead", False) for kind in kinds]
    assert shapes == rows


# ---- prompts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def prompts(module):
    """Three prompts are kept; a word is encoded as its length. `thread` works by hand, `encoded` lists what it did."""

    def encode(text):
        if text == "broken":
            raise ValueError("cannot be encoded")
        return module("prompts").Words(torch.full((1, 2, 3), float(len(text))))

    return module("prompts").Prompts(encode, torch.device("cpu"), keep=3, thread=ByHand())


def test_a_prompt_is_encoded_once(prompts):
    assert prompts.find("one") is None
    assert prompts.find("one") is None
    assert prompts.thread.work() == ["one"]
    words = prompts.find("one")
    assert words.tokens[0, 0, 0] == 3
    assert prompts.find("one") is words
    assert prompts.thread.work() == []


def test_the_latest_prompts_are_kept(prompts):
    for text in ("one", "two", "three", "one", "four"):
        prompts.find(text)
        prompts.thread.work()
    assert set(prompts.known) == {"one", "three", "four"}


def test_of_several_waiting_prompts_only_the_newest_is_encoded(prompts):
    for text in ("o", "on", "one"):
        prompts.find(text)
    assert prompts.thread.work() == ["one"]
    prompts.find("on")  # was cancelled, and is asked for again
    assert prompts.thread.work() == ["on"]
    assert prompts.find("on") is not None


def test_a_failure_comes_out_once_and_may_be_tried_again(prompts):
    for _ in range(2):
        prompts.find("broken")
        prompts.thread.work()
        with pytest.raises(ValueError, match="cannot be encoded"):
            prompts.find("broken")


def test_the_words_change_over_some_frames(module):
    words, crossfade = module("prompts").Words, module("prompts").Crossfade
    zero, four = words(torch.zeros(1, 1, 1), torch.zeros(1, 1)), words(torch.full((1, 1, 1), 4.0), torch.full((1, 1), 4.0))
    fade = crossfade(zero)
    fade.aim(four, 4)
    assert [fade.next().tokens.item() for _ in range(2)] == [1, 2]
    fade.aim(four, 4)  # again the same: it goes on
    assert [fade.next().pooled.item() for _ in range(3)] == [3, 4, 4]
    assert fade.next() is four
    fade.aim(zero, 0)
    assert fade.next() is zero


# ---- sessions -------------------------------------------------------------------------------------------------------


async def test_a_first_picture_with_its_caption_is_shown_at_once(autojump_clock, opened):
    async with opened() as server, server.connect() as client:
        first, *_, last = await client.take(8)
        assert first.data.shape == (64, 64, 3)
        assert np.array_equal(first.data[-16:], server.model.caption.numpy())
        assert not np.array_equal(first.data[:-16], last.data[:-16])  # the landscape moves


async def test_the_old_prompt_goes_on_until_the_new_one_is_encoded(autojump_clock, opened):
    async with opened() as server, server.connect() as client:
        server.model.prompts.thread = thread = ByHand()
        shown = []
        paint = server.model.paint
        server.model.paint = lambda plain, words, *rest: (shown.append(words), paint(plain, words, *rest))[1]
        await client.command("set_blend", blend=2)
        await client.command("set_prompt", prompt="a storm")
        shown.clear()
        await client.take(6)
        assert all(words is server.model.first for words in shown)
        waited = len(shown)
        assert waited >= 5
        assert thread.work() == ["a storm"]
        message = await client.next_message()
        assert (message.type, message.data) == ("prompt_shown", {"prompt": "a storm", "frames": waited})
        await client.take(4)
        goal = server.model.prompts.find("a storm")
        assert shown[waited] is not server.model.first
        assert torch.allclose(shown[waited].tokens, (server.model.first.tokens + goal.tokens) / 2)
        assert all(words is goal for words in shown[waited + 1 :])


async def test_prompts_are_encoded_on_a_thread_of_their_own(autojump_clock, opened):
    import threading

    async with opened() as server, server.connect() as client:
        threads = []
        encode = server.model.prompts.encode
        server.model.prompts.encode = lambda text: (threads.append(threading.current_thread()), encode(text))[1]
        await client.command("set_prompt", prompt="a storm")
        while not threads or not server.model.prompts.known["a storm"].done():
            await client.take(1)
        assert threads[0].name.startswith("prompts")


async def test_a_prompt_that_the_guard_refuses_changes_nothing(autojump_clock, opened):
    async with opened() as server, server.connect() as client:
        with pytest.raises(CommandError, match="not this word, please: nude"):
            await client.command("set_prompt", prompt="A nude, painted")
        await client.take(2)
        assert server.model.state.prompt == "a village by the sea, oil painting"
        await client.command("set_prompt", prompt="a nudge")


async def test_the_camera_goes_before_the_landscape_and_a_picture_too(autojump_clock, opened):
    async with opened() as server, server.connect() as client:
        plain = []
        paint = server.model.paint
        server.model.paint = lambda picture, *rest: (plain.append(picture), paint(picture, *rest))[1]
        await client.command("set_picture", picture=await client.upload(png(scene(1)), name="a.png", mime_type="image/png"))
        await client.take(3)
        assert np.array_equal(plain[-1], scene(1))
        await client.push("camera", scene(2))
        await client.take(1)
        assert np.array_equal(plain[-1], scene(2)[:, ::-1])
        await client.command("set_mirror", mirror=False)
        await client.push("camera", scene(3))
        await client.take(1)
        came, count = trio.current_time() - STEP, len(plain)
        assert np.array_equal(plain[-1], scene(3))
        await trio.sleep_until(came + 0.95)
        assert len(plain) == count  # the camera is on: nothing is painted twice
        await client.take(1)
        assert np.array_equal(plain[-1], scene(1))
        await client.command("set_picture", picture=None)
        await client.take(3)
        assert plain[-1].shape == (64, 64, 3)


@pytest.mark.parametrize("data", [b"no picture", png(scene())[:100], png(scene(), "BMP")], ids=["text", "cut off", "BMP"])
async def test_a_file_that_is_no_picture_is_refused(autojump_clock, opened, data):
    async with opened() as server, server.connect() as client:
        file = await client.upload(data, name="a.png", mime_type="image/png")
        with pytest.raises(CommandError, match=r"a\.png is no picture that can be opened") as refused:
            await client.command("set_picture", picture=file)
        assert refused.value.code == "not_a_picture"
        await client.take(2)
        assert server.model.state._still is None


async def test_a_picture_that_would_fill_the_memory_is_refused(autojump_clock, opened, module, monkeypatch):
    monkeypatch.setattr(module("live"), "MOST_PIXELS", 1000)
    async with opened() as server, server.connect() as client:
        file = await client.upload(png(scene()), name="a.png", mime_type="image/png")
        with pytest.raises(CommandError, match="80 x 48 pixels") as refused:
            await client.command("set_picture", picture=file)
        assert refused.value.code == "too_large"


async def test_a_picture_that_the_safety_hook_refuses_is_hidden(autojump_clock, opened, module, monkeypatch):
    verdicts = []
    async with opened(safety="guard:allow") as server, server.connect() as client:
        server.model.allowed = lambda frames: (verdicts.append(frames.shape), len(verdicts) not in (3, 4, 6))[1]
        frames = [frame.data[:-16] for frame in await client.take(7)]
        flat = [bool((frame == frame[0, 0]).all()) for frame in frames]
        assert flat == [False, False, True, True, False, True, False]
        assert verdicts[0] == (1, 64, 64, 3)
        assert [(await client.next_message()).type for _ in range(2)] == ["picture_hidden"] * 2


def test_the_guard_of_pictures(module, loaded):
    assert loaded(safety="guard:allow").allowed is module("guard").allow
    assert module("guard").allow(torch.zeros(1, 4, 4, 3, dtype=torch.uint8))
    assert not module("guard").allow(torch.full((1, 4, 4, 3), 255, dtype=torch.uint8))
    with pytest.raises(ValueError, match="safety: 'guard:nothing' names no function"):
        loaded(safety="guard:nothing")


def test_a_checkpoints_own_safety_checker_is_asked(loaded):
    model = loaded()
    assert model.allowed is None
    asked = []

    def checker(*, images, clip_input):
        asked.append((images.shape, clip_input.shape))
        return images, [len(asked) == 2]

    def features(pictures, *, return_tensors):
        return SimpleNamespace(to=lambda device: SimpleNamespace(pixel_values=torch.zeros(1, 3, 8, 8)))

    model.pipeline.safety_checker, model.pipeline.feature_extractor = checker, features
    allowed = model.safety_of("checkpoint")
    picture = torch.zeros(1, 64, 64, 3, dtype=torch.uint8)
    assert [allowed(picture), allowed(picture)] == [True, False]
    assert asked[0] == ((1, 3, 64, 64), (1, 3, 8, 8))


async def test_space_takes_other_noise_and_a_session_leaves_nothing(autojump_clock, opened):
    async with opened(stream_batch=True) as server:
        async with server.connect() as client:
            await client.command("set_steps", steps=4)
            await client.command("key_space")
            await client.take(3)
            assert server.model.state.seed == 8
        async with server.connect() as client:
            await client.take(1)
            assert (server.model.state.seed, server.model.state.steps) == (7, 1)


async def test_a_checkpoint_that_is_absent_ends_the_start_in_one_line(autojump_clock, opened):
    with pytest.raises(ModelFailed, match=r"load\(\) raised FileNotFoundError: no folder './none'"):
        async with opened(model="./none"):
            pass
