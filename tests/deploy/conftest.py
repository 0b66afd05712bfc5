"""The far side of a fault, a server in a process of its own, lives with the fault tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
