"""What `deploy/` gives Prometheus and Grafana: well-formed, and about metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.support.known_facts import facts_of

from reactor_trio.server.server_metrics import Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]

EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]] + [rule["expr"] for rule in RULES]

EXPOSITION = Metrics(facts_of("demo")).exposition().decode()
SAMPLES = [sample for family in text_string_to_metric_families(EXPOSITION) for sample in family.samples]
VALUES: dict[tuple[str, str], set[str]] = {}
for sample in SAMPLES:
    for label, value in sample.labels.items():
        VALUES.setdefault((sample.name, label), set()).add(value)


def metrics_of(expression: str) -> set[str]:
    return set(re.findall(r"\breactor_\w+", expression))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_metric_and_label_that_is_asked_for_exists(expression):
    assert expression.count("(") == expression.count(")")
    assert metrics_of(expression) <= {sample.name for sample in SAMPLES}
    for metric, matchers in re.findall(r"(reactor_\w+)\{([^}]*)\}", expression):
        for label, operator, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers):
            if label in ("job", "instance"):  # Prometheus' own
                continue
            assert set(value.split("|") if operator == "=~" else [value]) <= VALUES[metric, label], (metric, label)
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        asked = set(re.findall(r"\w+", labels)) - {"instance"}
        assert all(asked <= {label for name, label in VALUES if name == metric} for metric in metrics_of(expression))


def test_every_metric_of_the_server_has_a_place_on_the_dashboard_or_in_an_alert():
    shown = set().union(*map(metrics_of, EXPRESSIONS))
    families = {re.sub(r"_(total|bucket|count|sum|created)$", "", sample.name) for sample in SAMPLES}
    hidden = {name for name in families if not any(metric.startswith(name) for metric in shown)}
    hidden = {name for name in hidden if not name.startswith("reactor_process_")}
    place = "add a panel to deploy/grafana-dashboard.json or an alert to deploy/prometheus-alerts.yml"
    assert hidden == {"reactor_model_ready"}, place


def test_the_dashboard_is_well_formed():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, f"{panel['title']} lies on another"
        assert max(x for x, _ in cells) < 24
        taken |= cells
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "job", "instance"}
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references)) >= 1
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used <= variables


def test_each_alert_says_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_prometheus_loads_the_alerts_and_scrapes_metrics():
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    assert [DEPLOY / name for name in config["rule_files"]] == [DEPLOY / "prometheus-alerts.yml"]
    (scrape,) = config["scrape_configs"]
    assert (scrape["job_name"], scrape["metrics_path"]) == ("reactor", "/metrics")


def test_the_page_on_operating_names_every_metric():
    page = (ROOT / "docs" / "operate" / "operating.md").read_text()
    families = {re.sub(r"_(bucket|count|sum|created)$", "", sample.name) for sample in SAMPLES}
    told = {name for name in families if not name.startswith("reactor_process_")}
    assert sorted(name for name in told if f"`{name}`" not in page) == []
