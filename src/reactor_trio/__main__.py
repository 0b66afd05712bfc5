"""`python -m reactor_trio` runs the same program as the console script `reactor`."""

import sys

from reactor_trio.cli import main

if __name__ == "__main__":
    sys.exit(main())
