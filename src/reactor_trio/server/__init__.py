"""The runtime of one model: admission, sessions, the site on its port, lifecycle, and `serve`."""
