"""`metrics`: every metric family that a server and a gate answer at `/metrics`, from the code that counts them."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace as Facts

from prometheus_client.core import Metric

from reactor_trio.gate.gate_metrics import GateMetrics
from reactor_trio.server.server_metrics import Metrics
from reference_pages.markdown import table


def metrics() -> str:
    """Return a table of a server's metrics and one of a gate's."""
    return f"## Of a server\n\n{_table(of_a_server())}\n## Of a gate\n\n{_table(of_a_gate())}"


def of_a_server() -> list[Metric]:
    """Return the families of a server that has done nothing yet."""
    idle = Facts(admission=Facts(live=0, waiting=0), phase="ready", health=Facts(hangs=False), name="")
    return list(Metrics(idle).collect())  # type: ignore[arg-type]


def of_a_gate() -> list[Metric]:
    """Return the families of a gate that has done nothing yet."""
    return list(GateMetrics(lambda: (0, 0)).collect())


def _table(families: Iterable[Metric]) -> str:
    rows = [(_names(family), family.type, _labels(family), family.documentation) for family in families]
    return table(("name", "type", "labels", "meaning"), sorted(rows))


def _names(family: Metric) -> str:
    return f"`{family.name}{'_total' if family.type == 'counter' else ''}`"


def _labels(family: Metric) -> str:
    """The labels with their values, where the values are known before anything has happened."""
    values: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != "le" and family.name != "reactor_build_info":
                values.setdefault(label, {})[value] = None
    if family.name == "reactor_build_info":
        return "`version`, `python`, `model`"
    return "; ".join(f"`{label}`: {', '.join(f'`{value}`' for value in known)}" for label, known in values.items())
