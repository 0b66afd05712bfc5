"""The parts of the reference that are made from the source, and what the site needs beside them.

Each of `commands`, `manifest`, `metrics`, `vectors` and `python` is a function without Sphinx that returns Markdown.
`site` is the Sphinx extension, which puts it into the page that has the block

    ```{generated} manifest
    a line for readers on GitHub
    ```
"""
