"""The record of costs in buckets: moto's server for S3, strict stand-ins for Google's and Azure's."""

from __future__ import annotations

import base64
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from charterer.cost_record import CostRecord, DamagedRecord, RecordUnavailable
from charterer.domain.cost_row import CostRow
from tests.factory.cost_rows import cost_row, in_any_order, payer
from tests.unit.cost_record.object_servers import AzureBlobs, GoogleObjects, ObjectServer, serving

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it wants packages for services that are not used
    from moto.server import ThreadedMotoServer

NOVEMBER = ["2026-11"]


@pytest.fixture(scope="module")
def moto_server() -> Iterator[str]:
    """The URL of a server that speaks S3."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


@dataclass(frozen=True)
class S3:
    """A bucket at moto's."""

    client: Any
    place: str = "s3://costs/gpus/record"

    def names(self) -> list[str]:
        """The names of its objects."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="costs")
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def replace(self, key: str, content: bytes) -> None:
        """Write an object's content anew."""
        self.client.put_object(Bucket="costs", Key=key, Body=content)


@pytest.fixture
def s3(moto_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    environment = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-central-1"}
    for name, value in (environment | {"AWS_ENDPOINT_URL": moto_server}).items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=moto_server, region_name="eu-central-1")
    client.create_bucket(Bucket="costs", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    bucket = S3(client)
    yield bucket
    for key in bucket.names():
        client.delete_object(Bucket="costs", Key=key)
    client.delete_bucket(Bucket="costs")


@dataclass(frozen=True)
class StandIn:
    """A bucket of a server of ``object_servers``."""

    server: type[ObjectServer]
    place: str

    def names(self) -> list[str]:
        """The names of its objects."""
        return sorted(self.server.objects)

    def replace(self, key: str, content: bytes) -> None:
        """Write an object's content anew."""
        self.server.objects[key] = content


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    with serving(GoogleObjects) as (url, server):
        account = tmp_path / "account.json"
        key = {"client_email": "", "private_key": "", "private_key_id": ""}
        account.write_text(json.dumps(key | {"gcs_base_url": url, "disable_oauth": True}))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(account))
        yield StandIn(server, "gs://costs/gpus/record/")


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with serving(AzureBlobs) as (url, server):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"k" * 32).decode())
        monkeypatch.setenv("AZURE_ENDPOINT", f"{url}/account")
        yield StandIn(server, "az://costs/gpus/record")


@pytest.fixture(params=["s3", "google", "azure"])
def bucket(request: pytest.FixtureRequest) -> S3 | StandIn:
    found: S3 | StandIn = request.getfixturevalue(request.param)
    return found


def rows_of(place: str) -> list[CostRow]:
    return in_any_order(CostRecord(place).read(NOVEMBER))


async def test_batches_of_several_pages_are_read_as_they_were_written_and_twice_is_once(bucket: S3 | StandIn) -> None:
    rows = [cost_row(f"1.{number}", payer("vision/ü"), rental_uid=f"uid-{number}") for number in range(5)]
    elsewhere = [cost_row("9", budget=budget, time_zone="Asia/Tokyo") for budget in ("nlp", "vision", "robots")]
    record = CostRecord(bucket.place)
    for batch in ([rows[0]], rows[1:3], rows[3:], rows[1:3], elsewhere):
        await record.write(batch)
    assert len(bucket.names()) == 6
    assert all(key.startswith("gpus/record/") for key in bucket.names())
    assert rows_of(bucket.place) == in_any_order([*rows, *elsewhere])
    assert list(record.read(NOVEMBER, ["nlp"])) == elsewhere[:1]
    assert record.months() == {budget: ["2026-11"] for budget in ("nlp", "research", "robots", "vision")}


async def test_a_damaged_object_is_named_with_its_line(bucket: S3 | StandIn) -> None:
    await CostRecord(bucket.place).write([cost_row("1")])
    [key] = bucket.names()
    bucket.replace(key, b'{"format": 1')
    with pytest.raises(
        DamagedRecord, match=f"line 1 of research/2026-11/{key.rpartition('/')[2]} .*{bucket.place[:-1]}"
    ):
        rows_of(bucket.place)


async def test_an_empty_bucket_has_no_rows(bucket: S3 | StandIn) -> None:
    assert rows_of(bucket.place) == []
    assert CostRecord(bucket.place).months() == {}


@pytest.mark.usefixtures("s3")
async def test_a_bucket_that_is_not_there_is_said() -> None:
    record = CostRecord("s3://coasts/record")
    with pytest.raises(RecordUnavailable) as caught:
        await record.write([cost_row("1")])
    assert str(caught.value) == (
        "the record of costs at s3://coasts/record cannot be written: The specified bucket does not exist; "
        "make the bucket, or correct its name"
    )
    with pytest.raises(RecordUnavailable, match="cannot be read: The specified bucket does not exist; make the bucket"):
        list(record.read(NOVEMBER))


@pytest.mark.parametrize("cloud", ["google", "azure"])
@pytest.mark.parametrize(
    ("refusal", "advice"),
    [
        ((401, "AuthenticationFailed"), "give this process credentials for (Google Cloud Storage|Azure Blob Storage)"),
        ((403, "AccessDenied"), "give this process the rights to list, read and create objects there"),
        ((404, "NoSuchBucket"), "make the bucket, or correct its name"),
        ((400, "InvalidRequest"), "check the address, the network and (Google Cloud Storage|Azure Blob Storage)"),
    ],
)
async def test_a_refusal_is_told_in_the_vendors_words_with_what_to_do(
    cloud: str, refusal: tuple[int, str], advice: str, request: pytest.FixtureRequest
) -> None:
    stand_in: StandIn = request.getfixturevalue(cloud)
    stand_in.server.refusal = refusal
    record = CostRecord(stand_in.place)
    says = f"record of costs at {stand_in.place.rstrip('/')} cannot be %s: It is {refusal[1]}; {advice}"
    with pytest.raises(RecordUnavailable, match=says % "written"):
        await record.write([cost_row("1")])
    with pytest.raises(RecordUnavailable, match=says % "read"):
        list(record.read(NOVEMBER))
    stand_in.server.refusal = None
    await record.write([cost_row("1")])
    assert rows_of(stand_in.place) == [cost_row("1")]


@pytest.mark.parametrize(
    "place", ["http://costs/record", "s3://", "s3:///record", "s4://costs", "gs://costs?x=1", "file:///record"]
)
def test_a_place_that_is_none_is_said(place: str) -> None:
    with pytest.raises(RecordUnavailable, match=r"is no place for a record of costs: write a path, s3://BUCKET/PREFIX"):
        CostRecord(place)


def test_without_the_library_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(RecordUnavailable, match=r"needs obstore: pip install '\.\[records\]'"):
        CostRecord("s3://costs/record")
