"""One model on several processes of one machine, its *ranks*, in lock-step.

    this process               rank 0                                     ranks 1 ..
                                                     calls, answers
    `group`: one link  -----   `isolation.worker`    ------------->       `worker`
    that is all ranks          `runner`, `lead`        <-------------       `follower`
         |                                             what came of them      |
         '-------------------- load, ping, log, death ------------------------'

Towards the server the ranks are one process: `group` makes of their links one, hears the end of any, and ends them all with
the first. So whatever restarts an isolated model restarts its ranks, and nothing above knows of them. Rank 0 is the isolated
process that there is without ranks; it alone has sessions, pacing and frames.

Rank 0 *leads*: each call of author code goes to the others before it is made (`lead`), one after the other; they make the
same (`follower`). A call may be asked of the runtime only what all ranks are told alike: rank 0 looks (`asked`), and what it
saw is the answer of the others at the same place (`answered`). So nothing that a client does, and no clock of the runtime,
can bring the ranks apart; author code can, and then they are loaded again.
"""
