"""`python -m reactor_trio`: the same as the console script `reactor`."""

import sys

from reactor_trio.cli import main

if __name__ == "__main__":
    sys.exit(main())
