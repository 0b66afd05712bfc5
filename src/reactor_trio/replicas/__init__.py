"""Several servers of one model on Ray Serve, behind a gate (`docs/operate/scaling.md`). Needs the extra `reactor-trio[ray]`.

    cluster.py         starts or joins Ray for `reactor run --replicas N`, deploys the application, ends what it started
    application.py     the Serve application: the deployments and their options
    options.py         the application's arguments
    model_facts.py     the model's schema and slots, read before any replica has loaded the model
    replica.py         a server in a Serve replica; its clients connect to the server's own port
    gate_server.py     the gate in a Serve replica of its own
    serve_lessor.py    the gate's `Lessor`: each lease is a streaming call
    asyncio_bridge.py  streams between Ray's asyncio loop and a Trio loop
    removal_notice.py  detects that Serve will stop a replica
    node_helper.py     kills a replica's process that is stopped and cannot end itself
    node_address.py    addresses, sockets and names of this process in the cluster
    loopback.py        keeps Serve's internal port on loopback

Ray runs asyncio and the servers run Trio, each on a thread of its own. Only this package imports ray.
"""
