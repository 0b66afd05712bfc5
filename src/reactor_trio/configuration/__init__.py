"""`reactor.yaml`, its settings, and the credentials that it names: read, parsed and checked."""
