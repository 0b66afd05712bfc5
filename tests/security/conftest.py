"""The far side of a fault lives with the fault tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
