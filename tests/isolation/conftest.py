"""The tests of the other placements are run again here, and the peers of the fault tests are used."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "rows"), str(TESTS / "faults")]
