"""What a model class says about its worlds, and each mistake in it."""

from __future__ import annotations

import enum
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import pytest

from reactor_trio.errors import DeclarationError
from reactor_trio.interface import Input, InputState, Output, ReactorApp, ReactorModel, ReactorPipeline, Video, event
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.saving import Moment, Saves, restored, saving


class Style(enum.Enum):
    OIL = "oil"


@dataclass
class Place:
    x: float = 0.0


class Looks(InputState):
    style: Style = Style.OIL
    place: Place | None = None
    _past: int = 0


class Picture(Output):
    main: Video


class Camera(Input):
    camera: Video


class Tile(NamedTuple):
    x: int


class Watched(msgspec.Struct):
    x: int

    def __post_init__(self):
        raise AssertionError("this is the author's")


def no_values():
    return {}


def model(**members):
    members.setdefault("inference", lambda self: iter(()))
    return type("Dream", (ReactorPipeline,), {"__annotations__": {"state": Looks, "camera": Camera}, **members})


def test_a_model_without_saves_declares_nothing():
    assert declaration_of(model()).world is None
    assert declaration_of(model(saves="an attribute of the author's", world=3)).world is None


def test_saves_is_found_by_its_type_under_any_name_and_a_subclass_may_take_it_back():
    base = model(keeps=Saves(version=3, reads=(1, 2), may=("fork", "rewind")))
    world = declaration_of(base).world
    assert (world.saves.version, world.saves.reads, world.saves.may) == (3, (1, 2), ("rewind", "fork"))
    assert declaration_of(type("Child", (base,), {})).world == world
    assert declaration_of(type("Child", (base,), {"keeps": None})).world is None


def test_the_classes_are_those_of_types_and_of_the_settings():
    world = declaration_of(model(saves=Saves(types=(Tile,)))).world
    assert world.classes == {"Tile": Tile, "Style": Style, "Place": Place}


def test_the_hooks_are_found_by_their_marks():
    class Dream(ReactorModel):
        saves = Saves("water", "world.place", "net.cache[...]")

        @saving
        async def keep(self):
            return {}

        @restored
        def back(self, saved, moment):
            pass

    world = declaration_of(Dream).world
    assert (world.saving, world.restored) == ("keep", "back")
    assert [(path.names, path.in_place) for path in world.saves.paths] == [
        (("water",), False), (("world", "place"), False), (("net", "cache"), True),
    ]  # fmt: skip


def test_an_app_declares_it_too():
    class App(ReactorApp):
        state: Looks
        saves = Saves()

        async def process_input(self):
            pass

        def generate(self, input):  # noqa: A002
            pass

        async def process_output(self, outcome):
            pass

    assert declaration_of(App).world is not None


def test_a_moment_never_changes():
    moment = Moment(3, 0.1, "rewind", 1, True)
    with pytest.raises(AttributeError):
        moment.step = 4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Saves("water."), "Saves('water.'): a path is names joined by dots, and '' is no name"),
        (lambda: Saves("self.water"), "Saves('self.water'): paths begin at self; did you mean 'water'?"),
        (
            lambda: Saves("cache[0]"),
            "Saves('cache[0]'): a path is names joined by dots, and 'cache[0]' is no name; [...] stands at the end, and an "
            "index cannot be named",
        ),
        (
            lambda: Saves("cache[...].x"),
            "Saves('cache[...].x'): a path is names joined by dots, and 'cache[' is no name; [...] stands at the end, and "
            "an index cannot be named",
        ),
        (lambda: Saves("a.class"), "Saves('a.class'): a path is names joined by dots, and 'class' is no name"),
        (lambda: Saves("_reactor_binding.x"), "Saves('_reactor_binding.x'): _reactor_binding is the runtime's own"),
        (lambda: Saves("a", "a"), "Saves: 'a' lies in 'a'; name one of the two"),
        (lambda: Saves("a.b[...]", "a"), "Saves: 'a.b[...]' lies in 'a'; name one of the two"),
        (
            lambda: Saves(Place),
            "Saves: a path is text, such as 'world.place', not <class 'tests.worlds.test_declaration.Place'>; classes go "
            "into types=",
        ),
        (
            lambda: Saves(types=Place),
            "Saves: types= is a tuple of classes, such as types=(Maze,), not <class 'tests.worlds.test_declaration.Place'>",
        ),
        (lambda: Saves(types=(Place(),)), "Saves: types= has classes; Place(x=0.0) is none"),
        (
            lambda: Saves(types=(deque,)),
            "Saves: deque in types= holds more than attributes, since it is a deque; write @saving and @restored",
        ),
        (
            lambda: Saves(types=(Watched,)),
            "Saves: Watched in types= has a __post_init__, which a restored instance must not run; write @saving and "
            "@restored",
        ),
        (lambda: Saves(version=0), "Saves: versions are whole numbers from 1, not 0"),
        (lambda: Saves(version=2, reads=(2,)), "Saves: reads lists older versions, and 2 is today's"),
        (
            lambda: Saves(may="rewind"),
            "Saves: may= is names, such as ('rewind', 'save', 'fork'), or () for none, not 'rewind'",
        ),
        (
            lambda: Saves(may=("rewinds",)),
            "Saves: may= has 'rewinds'; did you mean 'rewind'?",
        ),
        (
            lambda: model(saves=Saves("state")),
            "Dream.saves: 'state' is captured by itself; name parts of its fields, or nothing",
        ),
        (
            lambda: model(saves=Saves("state._pasts.x")),
            "Dream.saves: 'state._pasts.x': Looks has no field '_pasts'; did you mean '_past'?",
        ),
        (
            lambda: model(saves=Saves("state.qqq")),
            "Dream.saves: 'state.qqq': Looks has no field 'qqq'; its fields are style, place, _past",
        ),
        (
            lambda: model(saves=Saves("load.x")),
            "Dream.saves: 'load.x': load is a method; name the attribute that it fills",
        ),
        (
            lambda: model(saves=Saves("camera")),
            "Dream.saves: 'camera': camera is the runtime's own and no part of a world",
        ),
        (
            lambda: model(saves=Saves("connected")),
            "Dream.saves: 'connected': connected is the runtime's own and no part of a world",
        ),
        (lambda: model(saves=Saves(), more=Saves()), "Dream: two Saves, saves and more; join them in one"),
        (
            lambda: model(saves=Saves(types=(type("Style", (), {"__qualname__": "Style"}),))),
            "Dream.saves: tests.worlds.test_declaration.Style and tests.worlds.test_declaration.Style have one name, and a "
            "file of a world could not tell them apart; rename one",
        ),
        (
            lambda: model(back=restored(lambda self, saved, moment: None)),
            "Dream.back: @restored is only called for a model that saves its worlds; add `saves = Saves()` to the class",
        ),
        (
            lambda: model(saves=Saves(), back=restored(lambda self, saved: None)),
            "Dream.back: @restored is called as back(saved, moment): too many positional arguments",
        ),
        (
            lambda: model(saves=Saves(), keep=saving(lambda self, more: {})),
            "Dream.keep: @saving is called as keep(): missing a required argument: 'more'",
        ),
        (
            lambda: model(saves=Saves(), keep=saving(lambda self: (yield))),
            "Dream.keep: a hook that yields never runs; return the values",
        ),
        (
            lambda: model(saves=Saves(), keep=staticmethod(saving(no_values))),
            "Dream.keep: @saving marks a plain method, not a static or class method",
        ),
        (
            lambda: model(saves=Saves(), keep=saving(lambda self: {}), more=saving(lambda self: {})),
            "Dream: two methods marked @saving: keep and more",
        ),
    ],
)
def test_a_mistake_says_in_one_line_what_to_write(make, said):
    with pytest.raises(DeclarationError) as raised:
        make()
    assert str(raised.value) == said
    assert raised.value.anchor == "saves"


def test_a_command_may_have_the_name_of_a_path_that_only_its_model_knows():
    """`self.water` is an attribute that `load` makes: the class cannot know it."""

    class Pool(ReactorModel):
        saves = Saves("water")

        @event
        def splash(self):
            pass

    assert declaration_of(Pool).world.saves.paths[0].text == "water"


@pytest.mark.parametrize("statement", ["from reactor_trio.interface import *", "from reactor_trio import *"])
def test_who_imports_the_author_api_does_not_import_worlds(statement):
    program = f"import sys; {statement}; print([name for name in sys.modules if name.startswith('reactor_trio.worlds')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
