"""Deprecated path of `reactor_trio.configuration.manifest`."""

from reactor_trio.moved import moved

moved(__name__, "reactor_trio.configuration.manifest")
