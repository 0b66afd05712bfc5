"""The life of a session: its states, and what follows from each event. It has no loop and reads no clock."""

from reactor_trio.lifecycle.life import HOOKS as HOOKS
from reactor_trio.lifecycle.life import TABLE as TABLE
from reactor_trio.lifecycle.life import Action as Action
from reactor_trio.lifecycle.life import Event as Event
from reactor_trio.lifecycle.life import SessionLife as SessionLife
from reactor_trio.lifecycle.life import State as State
