"""What tests of Reactor 3.x models look up: `ModelContract`, the manifest, private names, and a replaced `flush`."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest

from reactor_trio.errors import DeclarationError, ManifestError
from reactor_trio.interface import (
    Idle,
    InputField,
    InputState,
    MediaInput,
    ModelMessage,
    Output,
    ReactorApp,
    UploadedFile,
    Video,
    connected,
    event,
    session_ended,
)
from reactor_trio.interface.model.contract import ModelContract
from reactor_trio.interface.pipeline.idle import _IdleType
from reactor_trio.manifest import import_model_class, load_config


class View(Output):
    main_video: Video


class Camera(MediaInput):
    webcam: Video


class Moved(ModelMessage):
    """Emitted after each move."""

    place: int


class Silent(ModelMessage):
    place: int = 0


class Controls(InputState):
    speed: float = InputField(1.0, ge=0, le=8, description="Metres in a second.")
    _runs: int = 0


class SteeredCar(ReactorApp):
    """A car on a plain."""

    output: View
    media: Camera
    state: Controls

    @connected
    def greet(self) -> None: ...

    @session_ended
    def park(self) -> None: ...

    @event(name="steer", description="Emits `moved`.")
    async def turn(
        self,
        way: str = InputField("left", choices=["left", "right"]),
        image: UploadedFile = InputField(moderate=True),  # noqa: B008
    ) -> Moved:
        return Moved(place=len(way))

    @event(name="stop")
    def stop(self) -> None:
        self.output.flush()


def test_commands_have_their_fields_and_their_reply() -> None:
    contract = ModelContract.of(SteeredCar)
    assert (contract.model, contract.description) == ("steered_car", "A car on a plain.")
    assert set(contract.commands) == {"set_speed", "steer", "stop"}
    steer, speed = contract.commands["steer"], contract.commands["set_speed"].command.__command_fields__["speed"].info
    assert (steer.name, steer.description, steer.response) == ("steer", "Emits `moved`.", Moved)
    assert steer.handler is SteeredCar.turn
    assert steer.command.name == "steer"
    fields = steer.command.__command_fields__
    assert fields["way"].info.choices == ["left", "right"]
    assert (fields["way"].info.moderate, fields["image"].info.moderate) == (False, True)
    assert (speed.ge, speed.le, speed.description) == (0, 8, "Metres in a second.")
    assert (contract.commands["stop"].response, contract.commands["set_speed"].handler) == (None, None)


def test_hooks_tracks_and_messages() -> None:
    contract = ModelContract.of(SteeredCar)
    assert contract.lifecycle.connected is SteeredCar.greet
    assert contract.lifecycle.session_ended is SteeredCar.park
    assert contract.lifecycle.disconnected is None
    assert list(contract.tracks) == ["webcam", "main_video"]
    webcam = contract.tracks["webcam"]
    assert (webcam.kind.value, webcam.direction.value) == ("video", "in")
    assert webcam.direction == "in"
    assert contract.messages == {"moved": Moved, "silent": Silent}


def test_the_rendered_schema_describes_events_messages_and_tracks() -> None:
    document = ModelContract.of(SteeredCar).render_schema().to_openapi()
    steer = document["paths"]["/events/steer"]["post"]
    assert steer["summary"] == "Emits `moved`."
    assert steer["requestBody"]["content"]["application/json"]["schema"]["properties"]["way"]["enum"] == ["left", "right"]
    properties = steer["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert properties["way"]["x-reactor-moderate"] is False
    assert properties["image"] == {"$ref": "#/components/schemas/ReactorUploadReference", "x-reactor-moderate": True}
    assert document["components"]["schemas"]["ReactorUploadReference"]["required"] == ["upload_id"]
    assert document["paths"]["/events/set_speed"]["post"]["summary"] == "Metres in a second."
    assert {name: hook["post"]["summary"] for name, hook in document["webhooks"].items()} == {
        "moved": "Emitted after each move.", "silent": "",
    }  # fmt: skip
    assert document["components"]["schemas"]["Moved"]["properties"] == {"place": {"type": "integer"}}
    assert document["x-reactor"]["tracks"][1] == {"name": "main_video", "kind": "video", "direction": "out"}


def test_a_class_that_is_not_a_model_has_no_contract() -> None:
    with pytest.raises(DeclarationError, match="int is not a model"):
        ModelContract.of(int)


def test_the_manifest_names_the_model(tmp_path: Path) -> None:
    (tmp_path / "settings.yml").write_text("speed: 1\n")
    file = tmp_path / "reactor.yaml"
    file.write_text(
        "$schema: reactor/v2\nmodel: {name: car}\n"
        f"runtime: {{import: '{__name__}:SteeredCar', config: settings.yml}}\nbuild: {{python_version: '3.12'}}\n"
    )
    config = load_config(file)
    assert config == (f"{__name__}:SteeredCar", "car", tmp_path / "settings.yml")
    assert import_model_class(config.model_ref) is SteeredCar
    with pytest.raises(ManifestError, match="no such file"):
        load_config(tmp_path / "none" / "reactor.yaml")


def test_the_private_type_of_idle_may_stand_in_annotations() -> None:
    assert isinstance(Idle, _IdleType)
    assert typing.get_args(View | _IdleType) == (View, _IdleType)


def test_a_method_of_the_output_may_be_replaced_on_an_instance_that_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    car = SteeredCar()
    flushes: list[int] = []
    monkeypatch.setattr(car.output, "flush", lambda: flushes.append(1))
    car.stop()
    SteeredCar().stop()
    assert flushes == [1]
