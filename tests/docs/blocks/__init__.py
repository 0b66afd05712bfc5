"""Runs the code blocks of a page of the documentation, as a reader would who copies them from top to bottom.

* `page` finds the blocks, by the conventions of CONTRIBUTING.md ("Code blocks")
* `shell` runs the commands of a `sh` block; `programs` has the interpreter that they share
* `servers` connects to each server that a page starts, as the reader's browser does
* `notebook` stands in for Jupyter where the page calls `show`
* `formats` parses what is not run: YAML, JSON, JavaScript, HTML
* `repository` checks commands that need the repository itself, and would run for too long
* `run_page` puts them together
"""
