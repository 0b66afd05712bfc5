"""What passes between the I/O side and the model's side of a session, wherever the model runs.

    I/O side: Session, Playout  <-- channel: messages -->  model's side: DrivenSession, OutputPacer

A message is data (`messages`); each side has one table that says which function takes which message. If the model runs in
this process, a channel joins two loops (`local_channel`). Otherwise its messages cross a socket (`socket_link`, `wire`), and
frames lie in memory that both processes map. Every queue is bounded where it is filled: `message_flow`,
`input_lanes` and `file_pieces` by a `FlowWindow`, the others in `session.command_ledger` and `execution.output_pacer`.
"""
