#!/bin/sh
# prometheus_client 0.26.0 (the Prometheus project's client for Python) on a scrape of dcgm-exporter, Python 3.10 or newer.
#
# dcgm-exporter's counters have DCGM's names, without "_total". Prometheus' text format does not ask for that ending (its page
# "Exposition formats" names suffixes for histograms and summaries only), and Prometheus stores such a series under the name that
# stands there. prometheus_client.parser changes it: the sample's name gets "_total", which nothing has exposed. Gauges keep theirs:
#
#     exposed DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION: read as DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total
#     exposed DCGM_FI_DEV_POWER_USAGE: read as DCGM_FI_DEV_POWER_USAGE
#
# So a script that looks for the name of the dashboard or of the counters' file finds no energy, and no error. If the families are
# exposed again (a proxy, a filter), the series of energy, of ECC errors and of throttling get other names than the exporter's own, and
# alerts on those match nothing. A discussion of the rule with maintainers: client_python pull request 905.
# Whoever reads dcgm-exporter with it compares names without "_total".
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check prometheus_client==0.26.0
cd "$folder"
venv/bin/python - <<'PYTHON'
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

ENERGY, POWER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"
SCRAPE = f"""\
# HELP {ENERGY} Total energy consumption since boot (in mJ).
# TYPE {ENERGY} counter
{ENERGY}{{gpu="0",modelName="NVIDIA H100 80GB HBM3"}} 91234567
# HELP {POWER} Power draw (in W).
# TYPE {POWER} gauge
{POWER}{{gpu="0",modelName="NVIDIA H100 80GB HBM3"}} 688.1
"""
families = list(text_string_to_metric_families(SCRAPE))
read = [sample.name for family in families for sample in family.samples]
for exposed, name in zip((ENERGY, POWER), read):
    print(f"exposed {exposed}: read as {name}")
assert read == [f"{ENERGY}_total", POWER], "changed: the parser keeps the name of a counter"


class Again:
    def collect(self):
        return families


registry = CollectorRegistry()
registry.register(Again())
series = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
print(*series, sep="\n")
assert not any(line.startswith(f"{ENERGY}{{") for line in series), "changed: exposed again under its own name"
print("prometheus_client 0.26.0: a counter without _total is read under another name")
PYTHON
