"""A model on a port: manifest and settings, the runtime that admits and serves, the site, and ways to run it."""
