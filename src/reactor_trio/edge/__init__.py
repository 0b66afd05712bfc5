"""The HTTP edge that server and allocator share: listeners, TLS, authentication, tickets, request limits and counters."""
