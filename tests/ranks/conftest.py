"""The peers of the fault tests are used."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / "faults")]
