"""The runtime of one model: admission, sessions, routes of the port, lifecycle, and `serve`."""
