"""Several servers of one model on Ray Serve, behind a gate (`docs/scaling.md`). Needs the extra `reactor-trio[ray]`.

    reactor run --replicas N     cluster.py: starts Ray, or joins it, and the application; watches; ends it
    application.py               the deployments: what Serve is told of them
    replica.py                   a server in a Serve replica: leases in, load out; frames leave by its own port
    gate_server.py               the gate in a Serve replica of its own
    serve_lessor.py              the gate's `Lessor`: leases as streaming calls
    notice.py                    how a replica learns that Serve will stop it
    node_helper.py               ends a process that is stopped and cannot end itself

Ray runs asyncio, the servers run Trio, each on a thread of its own; `crossing.py` is the one place where they meet. Nothing
that is not in this package imports ray.
"""
