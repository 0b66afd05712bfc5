"""Deprecated path of `reactor_trio.offline`."""

from reactor_trio.moved import moved

moved(__name__, "reactor_trio.offline")
