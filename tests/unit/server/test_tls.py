"""The progress endpoint's certificate: made once, shared by replicas, renewed in time, trusted by pods that run on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from charterer.server.tls import StoredSecret, TlsMaterial, UnusableSecret, ensure_tls

NAMES = ("charterer-progress.charterer.svc", "charterer-progress.charterer.svc.cluster.local")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Secrets:
    """One Secret with Kubernetes' optimistic concurrency."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] | None = None
        self.version = 0
        self.loads = 0

    async def load(self) -> StoredSecret | None:
        self.loads += 1
        return None if self.data is None else StoredSecret(dict(self.data), str(self.version))

    async def save(self, data: Mapping[str, bytes], resource_version: str | None) -> bool:
        if resource_version != (None if self.data is None else str(self.version)):
            return False
        self.data = dict(data)
        self.version += 1
        return True

    async def ensure(self, now: datetime = NOW, names: tuple[str, ...] = NAMES) -> TlsMaterial:
        return await ensure_tls(self.load, self.save, names, now)


async def handshake(server: ssl.SSLContext, ca_pem: str, name: str) -> dict[str, object]:
    """The certificate that a client sees which trusts only ``ca_pem`` and asks for ``name``."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listening = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server)
    port = listening.sockets[0].getsockname()[1]
    client = ssl.create_default_context(cadata=ca_pem)
    async with listening:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        seen = writer.get_extra_info("peercert")
        writer.close()
        assert isinstance(seen, dict)
        return seen


def serial(material: TlsMaterial) -> int:
    return x509.load_pem_x509_certificate(material.chain_pem.encode()).serial_number


async def test_a_client_that_trusts_the_authority_accepts_the_server_under_each_of_its_names() -> None:
    material = await Secrets().ensure(datetime.now(UTC))
    for name in NAMES:
        await handshake(material.server_context(), material.ca_pem, name)


async def test_an_address_may_stand_in_for_a_name() -> None:
    material = await Secrets().ensure(datetime.now(UTC), (*NAMES, "127.0.0.1"))
    await handshake(material.server_context(), material.ca_pem, "127.0.0.1")
    await handshake(material.server_context(), material.ca_pem, NAMES[0])


async def test_another_name_or_another_authority_is_refused() -> None:
    material, other = await Secrets().ensure(datetime.now(UTC)), await Secrets().ensure(datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(material.server_context(), material.ca_pem, "elsewhere.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(material.server_context(), other.ca_pem, NAMES[0])


async def test_a_stored_certificate_is_used_again() -> None:
    secrets = Secrets()
    assert await secrets.ensure() == await secrets.ensure(NOW + timedelta(days=690))
    assert secrets.version == 1


async def test_a_certificate_is_renewed_thirty_days_before_its_end_under_the_same_authority() -> None:
    secrets = Secrets()
    first = await secrets.ensure()
    assert first.renew_at == NOW + timedelta(days=700)
    second = await secrets.ensure(first.renew_at)
    assert serial(first) != serial(second)
    assert first.ca_pem == second.ca_pem
    assert secrets.version == 2


async def test_new_connections_see_a_renewed_certificate_without_a_restart() -> None:
    now = datetime.now(UTC)
    secrets = Secrets()
    first = await secrets.ensure(now - timedelta(days=705))
    context = first.server_context()
    second = await secrets.ensure(now)
    second.reload(context)
    seen = await handshake(context, first.ca_pem, NAMES[0])
    assert int(str(seen["serialNumber"]), 16) == serial(second)


async def test_a_name_more_makes_a_new_certificate() -> None:
    secrets = Secrets()
    first = await secrets.ensure()
    second = await secrets.ensure(names=(*NAMES, "charterer-progress"))
    assert serial(first) != serial(second)
    assert await secrets.ensure() == second


async def test_an_authority_near_its_end_is_replaced_before_it_signs_what_would_outlive_it() -> None:
    secrets = Secrets()
    material = await secrets.ensure()
    authority = x509.load_pem_x509_certificate(material.ca_pem.encode())
    now = NOW
    while now < authority.not_valid_after_utc:
        now = (await secrets.ensure(now)).renew_at
    last = await secrets.ensure(authority.not_valid_after_utc - timedelta(days=1))
    assert last.ca_pem != material.ca_pem
    assert last.vouched_by(material.ca_pem)
    for data in (last,):
        leaf = x509.load_pem_x509_certificate(data.chain_pem.encode())
        assert leaf.not_valid_after_utc <= x509.load_pem_x509_certificate(data.ca_pem.encode()).not_valid_after_utc


async def test_a_pod_that_knows_the_authoritys_former_certificate_accepts_what_the_renewed_one_signs() -> None:
    now, secrets = datetime.now(UTC), Secrets()
    old = await secrets.ensure(now - timedelta(days=3650 - 700))
    context = old.server_context()
    new = await secrets.ensure(now)
    assert new.ca_pem != old.ca_pem
    new.reload(context)
    for ca_pem in (old.ca_pem, new.ca_pem):
        seen = await handshake(context, ca_pem, NAMES[0])
        assert int(str(seen["serialNumber"]), 16) == serial(new)


async def test_another_authority_does_not_vouch_for_it() -> None:
    material, other = await Secrets().ensure(), await Secrets().ensure()
    assert material.vouched_by(material.ca_pem)
    assert not material.vouched_by(other.ca_pem)


async def test_replicas_that_race_end_with_the_same_certificate() -> None:
    secrets = Secrets()
    barrier = asyncio.Barrier(3)

    async def load_together() -> StoredSecret | None:
        stored = await secrets.load()
        if stored is None:
            await barrier.wait()
        return stored

    materials = await asyncio.gather(*(ensure_tls(load_together, secrets.save, NAMES, NOW) for _ in range(3)))
    assert len({serial(material) for material in materials}) == 1
    assert secrets.version == 1


async def test_a_secret_that_never_holds_still_is_given_up_on() -> None:
    secrets = Secrets()

    async def never(_: Mapping[str, bytes], __: str | None) -> bool:
        return False

    with pytest.raises(RuntimeError, match="could not be stored"):
        await ensure_tls(secrets.load, never, NAMES, NOW)


@pytest.mark.parametrize("damage", ["missing", "garbage", "swapped"])
async def test_a_damaged_secret_says_which_key_and_what_to_do(damage: str) -> None:
    secrets = Secrets()
    await secrets.ensure()
    assert secrets.data is not None
    if damage == "missing":
        del secrets.data["tls.key"]
    elif damage == "garbage":
        secrets.data["tls.key"] = b"hello"
    else:
        secrets.data["tls.key"] = secrets.data["ca.key"]
    with pytest.raises(UnusableSecret, match=r"tls\.key.*delete the Secret"):
        await secrets.ensure()


async def test_a_naive_clock_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        await Secrets().ensure(NOW.replace(tzinfo=None))
