"""A model's page in a cell of a Jupyter notebook: `show`."""
