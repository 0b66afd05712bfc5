"""Hours of mixed clients against one server."""
