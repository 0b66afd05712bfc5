"""The model in a process of its own: killed and loaded again when it crashes or hangs, while the server goes on.

    this process                                              the model's process (`worker`)

    Session -> RemoteHalf (`half`)      --- words --->        LocalHalf -> ModelHalf, on a model loop in a thread
    Playout <- frames (`shared`)        <-- words ----        what they say, `Session` and `Playout` stood in for
    `placement`: spawn, load, watch          link             logging, load, run()

A session's two halves talk through words in either placement (`session.half`); here the words are encoded (`words`) and
cross a socket pair (`link`). Frames lie in memory that both processes map: the copy that makes a yield the runtime's own is
made right there, so that there is no other. Both loops read one clock.

What the kernel does, nobody has to: the memory has no name, so it is gone with its last process; the end of a process closes
its socket, which is how its death is noticed; and a process whose parent dies is killed.
"""
