"""What real-time pipelines write again and again around a model of torch: `StepTimer`, `warm_up`, `prefetch`.

Each is independent of the runtime's other parts and of the other two; take the one that you need.
`docs/reference/model/adapters.md` says which public pipelines have which.
"""

from reactor_trio.adapters.checkpoints import prefetch as prefetch
from reactor_trio.adapters.step_timer import StepTimer as StepTimer
from reactor_trio.adapters.warm_up import warm_up as warm_up
