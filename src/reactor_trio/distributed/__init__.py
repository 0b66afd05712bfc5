"""`DistributedRunner`: one worker process a rank, called together from a model's blocking code. Source: Reactor 3.6.

It needs nothing of the runtime: an app makes one in `load` and calls it in `generate`. `DistributedPipeline` is another
thing: it runs the whole model once in each rank.
"""

from reactor_trio.distributed.distributed_runner import DistributedRunner as DistributedRunner
from reactor_trio.distributed.shared_payloads import SharedSlotAllocationFailed as SharedSlotAllocationFailed
from reactor_trio.distributed.worker_failures import DistributedWorker as DistributedWorker
from reactor_trio.distributed.worker_failures import RankDesync as RankDesync
from reactor_trio.distributed.worker_failures import WorkerCrashed as WorkerCrashed
from reactor_trio.distributed.worker_failures import WorkerTimeout as WorkerTimeout
