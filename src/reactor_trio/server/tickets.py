"""Deprecated path of `reactor_trio.edge.tickets`."""

from reactor_trio.moved import moved

moved(__name__, "reactor_trio.edge.tickets")
