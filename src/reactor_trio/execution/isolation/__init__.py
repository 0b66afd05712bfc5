"""The model in a process of its own: killed and loaded again when it crashes or hangs, while the server goes on.

    this process                                              the model's process (`isolated_worker`)

    Session -> RemoteModelSession (`remote_session`) --- messages --> LocalModelSession -> SessionRunner, on a model loop in
    a thread Playout <- frames (`shared_frames`)      <-- messages --- stand-ins for `Session` and `Playout`, which encode
    `process_placement`: spawn, load, watch   process_link    logging, load, run()

The two sides of a session exchange the same messages in either placement (`execution.model_session`). Here they are encoded
(`ipc_messages`) and cross a socket pair (`process_link`). Frames lie in memory that both processes map: the copy that makes
a yield the runtime's own is made right there, and there is no other. Both loops read one clock.

What the kernel does, nobody has to: the memory has no name, so it is gone with its last process; the end of a process closes
its socket, which is how its death is noticed; and a process whose parent dies is killed.
"""
