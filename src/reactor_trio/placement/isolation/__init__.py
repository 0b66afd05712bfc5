"""The model in a process of its own. If it crashes or hangs, it is killed and loaded again, and the server goes on.

    the server's process                                 the model's process (`process_main`, `isolated_worker`)

    Session, Playout  <- RemoteSessionRun: SocketEnd ->  `crossing.socket_link`  <- SessionRelay: LocalEnd ->  SessionTasks
    `process_supervision`: start, load, watch                 messages                log records, load, run()

The two sides of a session exchange the same messages in either placement (`crossing`). Here they cross a socket pair;
`ipc_messages` has those that are about no session. Frames lie in memory that both processes map (`memory`); the one
copy that a yield costs goes right there. The two I/O loops read one clock (`shared_clock`).

The kernel cleans up. The memory has no name, so it is gone with its last process. The end of a process closes its socket,
which shows its death to the other. A process whose parent dies is killed.
"""
