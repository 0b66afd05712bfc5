"""The model in a process of its own. If it crashes or hangs, it is killed and loaded again, and the server goes on.

    the server's process                                 the model's process (`process_main`, `isolated_worker`)

    Session -> RemoteModelSession (`remote_session`)  -- messages -->  LocalModelSession -> SessionRunner, on the model loop
    Playout <- frames (`shared_frames`)               <- messages ---  stand-in for `Session` and `Playout`
    `process_supervision`: start, load, watch        `process_link`    log records, load, run()

The I/O side and the model side of a session exchange the same calls in either placement (`execution.model_session`). Here
these calls are IPC messages (`ipc_messages`) over a socket pair (`process_link`). Frames lie in memory that both processes
map (`frame_memory`); the one copy that a yield costs goes right there. The two I/O loops read one clock (`shared_clock`).

The kernel cleans up. The memory has no name, so it is gone with its last process. The end of a process closes its socket,
which shows its death to the other. A process whose parent dies is killed.
"""
