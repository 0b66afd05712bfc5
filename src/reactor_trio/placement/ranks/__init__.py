"""One model on several processes of one machine, its *ranks*, in lock-step.

    the server's process    rank 0 (leader)                            ranks 1 .. (followers)

    `rank_group`: one link  `isolated_worker`       -- calls, answers ->  `rank_worker`
    for all ranks           `leading_performer`, `leader`  <-- results -  `follower`
         |                                                                     |
         '-------------------- load, ping, log, death -------------------------'

To the server, the ranks are one process: `rank_group` joins their links, notices the end of a rank, and then ends them all.
So whatever restarts an isolated model restarts its ranks, and the layers above know nothing of ranks. Rank 0 is the process
of an isolated model; only rank 0 has sessions, pacing and frames.

Rank 0 *leads*: before it makes a call of author code, it sends the call to the other ranks (`leader`), which make the same
call (`follower`). Within a call, author code may ask the runtime only for what is the same on all ranks: rank 0 looks it up
and sends its answer, and the other ranks give that answer at the same place (`rank_binding`). So neither a client nor a
clock of the runtime can bring the ranks out of step. Author code can, and then the model is loaded again.
"""
