"""`reactor.yaml` and its settings, parsed and checked, with the credentials that they name."""
