"""The life of a session and the permit of its steps: states, and what follows from each event. No loop, no clock."""

from reactor_trio.lifecycle.life import HOOKS as HOOKS
from reactor_trio.lifecycle.life import RESTARTS as RESTARTS
from reactor_trio.lifecycle.life import TABLE as TABLE
from reactor_trio.lifecycle.life import TABLE_OF_WHOLE_STEPS as TABLE_OF_WHOLE_STEPS
from reactor_trio.lifecycle.life import Action as Action
from reactor_trio.lifecycle.life import Event as Event
from reactor_trio.lifecycle.life import SessionLife as SessionLife
from reactor_trio.lifecycle.life import State as State
from reactor_trio.lifecycle.step_permit import OutputRule as OutputRule
from reactor_trio.lifecycle.step_permit import StepPermit as StepPermit
from reactor_trio.lifecycle.step_permit import Stepping as Stepping
from reactor_trio.lifecycle.step_permit import SteppingEvent as SteppingEvent
