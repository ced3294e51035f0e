"""``charterer bill`` on a large file: seconds on the clock, of the processor, and the most memory that it takes.

    python -m tests.bench.bill --lines 10000000 --packing parquet      # or csv, csv.gz

The file is a month of an account in FOCUS 1.2 with all of its columns, as AWS writes them. One line in twenty is an
hour of one of Charterer's machines, or of a disk of one; the record has the same hours. The file is made first, which
takes longer than reading it, and is deleted at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb

from charterer.cost_record import CostRecord
from charterer.domain.budget import Cause
from charterer.domain.cost_row import BilledMachine, CostRow
from charterer.domain.money import Money
from charterer.domain.time import Instant, parse_instant

_HOUR: Final = 3_600_000_000
_HOURS: Final = 720
_START: Final = parse_instant("2026-11-01T00:00:00Z")
_OURS: Final = 20
"""One line in so many is of a machine of Charterer's or of its disk."""
_MACHINE: Final = BilledMachine("aws", "", "us-east-1", "us-east-1a", "", "p4d.24xlarge", "A100", 8, "OnDemand")
_COLUMNS: Final = """
    SELECT 'us-east-1a' AS AvailabilityZone, cost AS BilledCost, '123456789012' AS BillingAccountId,
    'Example' AS BillingAccountName, 'Payer' AS BillingAccountType, 'USD' AS BillingCurrency,
    '2026-12-01T00:00:00Z' AS BillingPeriodEnd, '2026-11-01T00:00:00Z' AS BillingPeriodStart,
    NULL AS CapacityReservationId, NULL AS CapacityReservationStatus, 'Usage' AS ChargeCategory, NULL AS ChargeClass,
    '$16.00 per On Demand Linux p4d.24xlarge Instance Hour' AS ChargeDescription, 'Usage-Based' AS ChargeFrequency,
    strftime(started + INTERVAL 1 HOUR, '%Y-%m-%dT%H:%M:%SZ') AS ChargePeriodEnd,
    strftime(started, '%Y-%m-%dT%H:%M:%SZ') AS ChargePeriodStart, NULL AS CommitmentDiscountCategory,
    NULL AS CommitmentDiscountId, NULL AS CommitmentDiscountName, NULL AS CommitmentDiscountQuantity,
    NULL AS CommitmentDiscountStatus, NULL AS CommitmentDiscountType, NULL AS CommitmentDiscountUnit,
    '1.0000000000' AS ConsumedQuantity, unit AS ConsumedUnit, cost AS ContractedCost, cost AS ContractedUnitPrice,
    cost AS EffectiveCost, '1234567890' AS InvoiceId, 'Amazon Web Services, Inc.' AS InvoiceIssuerName,
    cost AS ListCost,
    cost AS ListUnitPrice, 'Standard' AS PricingCategory, 'USD' AS PricingCurrency, NULL AS
    PricingCurrencyContractedUnitPrice, NULL AS PricingCurrencyEffectiveCost, NULL AS PricingCurrencyListUnitPrice,
    '1.0000000000' AS PricingQuantity, unit AS PricingUnit, 'AWS' AS ProviderName,
    'Amazon Web Services' AS PublisherName,
    'us-east-1' AS RegionId, 'US East (N. Virginia)' AS RegionName, resource AS ResourceId, NULL AS ResourceName,
    'instance' AS ResourceType, 'Compute' AS ServiceCategory, 'Amazon Elastic Compute Cloud' AS ServiceName,
    'Virtual Machines' AS ServiceSubcategory, 'H7NGEAC6UEHNTKSJ' AS SkuId, meter AS SkuMeter,
    '{"InstanceType":"p4d.24xlarge","OperatingSystem":"Linux","CoreCount":48}' AS SkuPriceDetails,
    'H7NGEAC6UEHNTKSJ.JRTCKXETXF.6YS6EN2CT7' AS SkuPriceId, '210987654321' AS SubAccountId, 'ml' AS SubAccountName,
    'Account' AS SubAccountType, tags AS Tags, '{}' AS x_Discounts, 'RunInstances' AS x_Operation,
    'AmazonEC2' AS x_ServiceCode FROM lines"""


def make_file(path: Path, lines: int, rentals: int) -> None:
    """A month of lines: those of each hour together, as exports have them."""
    packing = "FORMAT parquet" if path.suffix == ".parquet" else "FORMAT csv, QUOTE '\"', FORCE_QUOTE *"
    gzip = ", COMPRESSION gzip" if path.suffix == ".gz" else ""
    with duckdb.connect(config={"memory_limit": "2GB", "preserve_insertion_order": False}) as connection:
        connection.execute(
            f"""COPY (
            WITH numbers AS (SELECT n, n % {_OURS} = 0 AS ours, (n // {_OURS}) % (2 * {rentals}) AS which,
                (n // ({_OURS} * 2 * {rentals})) % {_HOURS} AS hour FROM range({lines}) r(n)),
            lines AS (SELECT TIMESTAMP '2026-11-01' + to_hours(hour::INT) AS started,
                CASE WHEN NOT ours THEN (n % 977 / 1000)::DECIMAL(18, 10)::VARCHAR WHEN which < {rentals}
                    THEN '16.0000000000' ELSE '0.1096000000' END AS cost,
                'arn:aws:ec2:us-east-1:210987654321:' || CASE WHEN NOT ours THEN printf('instance/i-0%016x', n % 100000)
                    WHEN which < {rentals} THEN printf('instance/i-f%016x', which)
                    ELSE printf('volume/vol-f%016x', which) END AS resource,
                CASE WHEN ours AND which >= {rentals} THEN 'GB-Mo' ELSE 'Hours' END AS unit,
                CASE WHEN ours AND which >= {rentals} THEN 'EBS:VolumeUsage.gp3'
                    ELSE 'BoxUsage:p4d.24xlarge' END AS meter,
                CASE WHEN ours THEN '{{"user:charterer.dev:pool":"a100","user:charterer.dev:rental":"a100-'
                        || (which % {rentals}) || '","user:team":"ml"}}'
                    ELSE '{{"user:team":"web","user:cost-center":"' || n % 50 || '"}}' END AS tags FROM numbers)
            {_COLUMNS}) TO '{path}' ({packing}{gzip})"""
        )


def make_record(place: Path, lines: int, rentals: int) -> int:
    """The hours of the machines that the file has, day by day; how many rows."""
    hours = lines // (_OURS * 2 * rentals)
    rows = [_row(number, day, min(day + 24, hours)) for number in range(rentals) for day in range(0, hours, 24)]
    place.mkdir()
    asyncio.run(CostRecord(str(place)).write(rows))
    return len(rows)


def _row(number: int, first: int, last: int) -> CostRow:
    return CostRow(
        budget="research",
        budget_uid="research",
        time_zone="UTC",
        rental=f"a100-{number}",
        rental_uid=f"a100-{number}",
        pool="a100",
        machine=replace(_MACHINE, instance=f"i-f{number:016x}"),
        start=Instant(_START + first * _HOUR),
        end=Instant(_START + last * _HOUR),
        cause=Cause.IDLE,
        payer=None,
        gpu_seconds=8 * 3600 * (last - first),
        hourly=Money.parse("16.00"),
        cost=Money.parse(f"{16 * (last - first)}"),
        part=first // 24,
        version=1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--packing", choices=("csv", "csv.gz", "parquet"), default="parquet")
    parser.add_argument("--folder", type=Path, help="Where the file is made, of 10 million lines 9.2 GB in csv.")
    arguments = parser.parse_args()
    rentals = -(-arguments.lines // (_OURS * 2 * _HOURS))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path, record = Path(folder) / f"bill.{arguments.packing}", Path(folder) / "record"
        make_file(path, arguments.lines, rentals)
        rows = make_record(record, arguments.lines, rentals)
        print(
            f"{arguments.lines:,} lines, {path.stat().st_size / 1e9:.2f} GB; {rows:,} rows of {rentals:,} rentals",
            flush=True,
        )
        began = time.monotonic()
        command = [str(Path(sys.executable).with_name("charterer")), "bill", str(path), "--record", str(record)]
        print(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"{time.monotonic() - began:.1f} s, of the processor {used.ru_utime + used.ru_stime:.1f} s; "
            f"most memory {used.ru_maxrss / 1024:.0f} MiB"
        )


if __name__ == "__main__":
    main()
