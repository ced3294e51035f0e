"""Kubeconfigs and service accounts as they are found in the world."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from charterer.cluster import credentials
from charterer.cluster.credentials import Access, Credential, NoAccess
from tests.unit.cluster.identities import API_VERSION, Clock, certificate, kubeconfig, plug_in, printing, runs


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def authorities(access: Access) -> list[str]:
    return [entry["subject"][0][0][1] for entry in access.tls.get_ca_certs()]


BOMB = b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)
)
MERGES = b"a0: &a0 {x: 1}\n" + b"".join(
    b"a%d: &a%d\n  <<: [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 99)) for n in range(1, 9)
)
TOO_MUCH = {
    "a list in itself": (b"clusters: &a\n- *a\n", "an alias in it names what it stands in"),
    "a user in itself": (b"users: &a {user: *a}\n", "an alias in it names what it stands in"),
    "aliases of aliases": (BOMB, "with its aliases it has more than 1,000,000 values"),
    "merges of merges": (MERGES, "with its merges (<<) it has more than 1,000,000 values"),
    "deep": (b"[" * 20_000, "it is nested too deeply"),
    "large": (b"#" * (16 * 1024 * 1024 + 1), "it has more than 16,777,216 bytes: give a smaller file"),
}


class TestKubeconfig:
    def test_the_current_context_says_where_and_who(self, tmp_path: Path) -> None:
        access = credentials.load(kubeconfig(tmp_path / "config", {"token": "abc"}))
        assert access.server == "https://api:6443"
        assert access.namespace == "ml"
        assert access.credential().header == "Bearer abc"

    def test_files_are_relative_to_the_kubeconfig_and_data_wins_over_files(self, tmp_path: Path) -> None:
        (tmp_path / "ca.pem").write_text(certificate("from a file")[0])
        config = kubeconfig(tmp_path / "config", cluster={"certificate-authority": "ca.pem"})
        assert authorities(credentials.load(config)) == ["from a file"]
        both = {"certificate-authority": "ca.pem", "certificate-authority-data": encoded(certificate("inline")[0])}
        config = kubeconfig(tmp_path / "config", cluster=both)
        assert authorities(credentials.load(config)) == ["inline"]

    def test_of_several_files_the_first_that_names_something_wins(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kubeconfig(tmp_path / "one", {"token": "one"})
        kubeconfig(tmp_path / "two", {"token": "two"})
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent:{tmp_path}/one:{tmp_path}/two")
        assert credentials.load().credential().header == "Bearer one"

    def test_so_does_the_first_current_context(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        kubeconfig(tmp_path / "one")
        (tmp_path / "two").write_text(kubeconfig(tmp_path / "two").read_text().replace("here", "there"))
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one:{tmp_path}/two")
        (tmp_path / "one").write_text((tmp_path / "one").read_text().replace("namespace: ml", "namespace: first"))
        assert credentials.load().namespace == "first"

    def test_an_unknown_context_is_named_with_those_that_exist(self, tmp_path: Path) -> None:
        with pytest.raises(NoAccess, match=r"contexts has no entry 'there' \(there are: here\)"):
            credentials.load(kubeconfig(tmp_path / "config"), "there")

    def test_a_user_or_a_server_that_is_not_there_is_told_and_nobody_becomes_anonymous(self, tmp_path: Path) -> None:
        config = yaml.safe_load(kubeconfig(tmp_path / "config").read_text())
        (tmp_path / "userless").write_text(yaml.safe_dump({**config, "users": []}))
        with pytest.raises(NoAccess, match="users has no entry 'u'"):
            credentials.load(tmp_path / "userless")
        (tmp_path / "nowhere").write_text(yaml.safe_dump({**config, "clusters": [{"name": "c", "cluster": {}}]}))
        with pytest.raises(NoAccess, match="cluster 'c' has no field server"):
            credentials.load(tmp_path / "nowhere")

    def test_no_kubeconfig_at_all_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
        with pytest.raises(NoAccess, match="pass --kubeconfig"):
            credentials.load()
        with pytest.raises(NoAccess, match="absent cannot be read: no such file"):
            credentials.load(tmp_path / "absent")

    @pytest.mark.parametrize("text", ["- a list", "contexts: {}", ""])
    def test_a_kubeconfig_that_is_none_is_named(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "config").write_text(text)
        with pytest.raises(NoAccess, match="config"):
            credentials.load(tmp_path / "config")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (b"a: [b\nc: d", "it is no YAML: line 2, column 2: expected ',' or ']', but got ':'"),
            (b"\xff\xfe\x00", "it is no YAML"),
            (b"just words", "it does not have the shape of a kubeconfig: compare it with `kubectl config view`"),
            (b"- a list", "it does not have the shape of a kubeconfig: compare it with `kubectl config view`"),
        ],
    )
    def test_a_kubeconfig_that_cannot_be_read_is_named_in_one_line(
        self, tmp_path: Path, text: bytes, words: str
    ) -> None:
        (tmp_path / "config").write_bytes(text)
        with pytest.raises(NoAccess) as said:
            credentials.load(tmp_path / "config")
        assert str(said.value) == f"kubeconfig {tmp_path / 'config'} cannot be read: {words}"

    @pytest.mark.parametrize(("text", "words"), TOO_MUCH.values(), ids=TOO_MUCH)
    def test_a_kubeconfig_that_means_too_much_is_told_before_the_loader_sees_it(
        self, tmp_path: Path, text: bytes, words: str
    ) -> None:
        (tmp_path / "config").write_bytes(text)
        with pytest.raises(NoAccess, match=f"config cannot be read: .*{re.escape(words)}$"):
            credentials.load(tmp_path / "config")

    def test_a_kubeconfig_that_is_read_anew_is_checked_anew(self, tmp_path: Path) -> None:
        config = kubeconfig(tmp_path / "config", {"token": "abc"})
        access = credentials.load(config)
        config.write_text("clusters: &a\n- *a\n")
        access.refused(access.credential())
        with pytest.raises(NoAccess, match="an alias in it names what it stands in"):
            access.credential()

    def test_a_pipe_as_kubeconfig_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(NoAccess, match="pipe cannot be read: it is no regular file: save it as one first"):
            credentials.load(tmp_path / "pipe")

    def test_a_kubeconfig_with_data_that_is_not_base64_says_so(self, tmp_path: Path) -> None:
        file = kubeconfig(tmp_path / "config", {"client-certificate-data": "%", "client-key-data": "x"})
        with pytest.raises(NoAccess, match=r"cannot be read: a field that ends in -data is not base64$"):
            credentials.load(file)

    def test_certificates_that_are_none_are_told_at_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(NoAccess, match="config cannot be read"):
            credentials.load(kubeconfig(tmp_path / "config", cluster={"certificate-authority": "absent.pem"}))
        with pytest.raises(NoAccess, match="config cannot be read"):
            credentials.load(kubeconfig(tmp_path / "config", cluster={"certificate-authority-data": encoded("no")}))

    def test_an_obsolete_auth_provider_is_refused_with_what_to_use_instead(self, tmp_path: Path) -> None:
        with pytest.raises(NoAccess, match="credential plug-in"):
            credentials.load(kubeconfig(tmp_path / "config", {"auth-provider": {"name": "gcp"}}))

    def test_the_oidc_provider_gives_its_token(self, tmp_path: Path) -> None:
        token = ".".join(encoded(json.dumps(part)).rstrip("=") for part in ({}, {"exp": 32_503_680_000}, {}))
        user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}
        assert credentials.load(kubeconfig(tmp_path / "config", user)).credential().header == f"Bearer {token}"
        user["auth-provider"]["config"] = {"id-token": "no token"}
        with pytest.raises(NoAccess, match="auth-provider of user 'u' gave no credential"):
            credentials.load(kubeconfig(tmp_path / "config", user))

    def test_a_name_and_a_password_are_basic_authentication(self, tmp_path: Path) -> None:
        access = credentials.load(kubeconfig(tmp_path / "config", {"username": "ann", "password": "hush"}))
        assert access.credential().header == f"Basic {encoded('ann:hush')}"

    def test_secrets_do_not_show_in_its_representation(self, tmp_path: Path) -> None:
        access = credentials.load(kubeconfig(tmp_path / "config", {"token": "hush", "client-key-data": "aHVzaA=="}))
        assert "hush" not in repr(access)
        assert "hush" not in repr(access.credential())

    def test_keys_lie_about_in_no_temporary_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        public, private = certificate("ann")
        user = {"client-certificate-data": encoded(public), "client-key-data": encoded(private)}
        for _ in range(2):
            credentials.load(kubeconfig(tmp_path / "config", user))
        assert list((tmp_path / "temporary").iterdir()) == []

    def test_the_proxy_of_the_kubeconfig_or_of_the_environment_is_used_save_for_exempt_hosts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert credentials.load(kubeconfig(tmp_path / "config")).proxy is None
        monkeypatch.setenv("HTTPS_PROXY", "http://outside:1")
        assert credentials.load(kubeconfig(tmp_path / "config")).proxy == "http://outside:1"
        named = {"proxy-url": "http://own:2"}
        assert credentials.load(kubeconfig(tmp_path / "config", cluster=named)).proxy == "http://own:2"
        monkeypatch.setenv("NO_PROXY", "api")
        assert credentials.load(kubeconfig(tmp_path / "config")).proxy is None


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("mounted\n")
    (tmp_path / "ca.crt").write_text(certificate("authority")[0])
    (tmp_path / "namespace").write_text("charterer-system")
    return tmp_path


ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_uses_its_service_account(mounted: Path) -> None:
    access = credentials.from_service_account(ENVIRONMENT, mounted)
    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "charterer-system"
    assert access.credential().header == "bearer mounted"
    assert authorities(access) == ["authority"]


def test_a_pod_without_its_authority_is_told_so(mounted: Path) -> None:
    (mounted / "ca.crt").unlink()
    with pytest.raises(NoAccess, match=r"service account .* cannot be read"):
        credentials.from_service_account(ENVIRONMENT, mounted)


class TestTokenFiles:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture(params=["kubeconfig", "service account"])
    def access(self, request: pytest.FixtureRequest, mounted: Path, clock: Clock) -> Access:
        (mounted / "token").write_text("one")
        if request.param == "kubeconfig":
            return credentials.from_kubeconfig([kubeconfig(mounted / "config", {"tokenFile": "token"})], clock=clock)
        return credentials.from_service_account(ENVIRONMENT, mounted, clock=clock)

    @staticmethod
    def token(proof: Credential) -> str:
        return (proof.header or "").partition(" ")[2]

    def test_a_rotated_token_is_read_again_after_a_minute_or_a_refusal(
        self, mounted: Path, access: Access, clock: Clock
    ) -> None:
        first = access.credential()
        assert self.token(first) == "one"
        (mounted / "token").write_text("two\n")
        assert access.credential() is first
        clock.now += credentials.MAX_AGE
        second = access.credential()
        assert self.token(second) == "two"
        (mounted / "token").write_text("three")
        access.refused(second)
        assert self.token(access.credential()) == "three"

    def test_only_a_refusal_of_what_is_in_use_counts(self, access: Access) -> None:
        first = access.credential()
        access.refused(first)
        second = access.credential()
        access.refused(first)
        assert access.credential() is second

    def test_connections_outlive_a_rotation_but_not_a_refusal(self, access: Access, clock: Clock) -> None:
        tls = access.tls
        clock.now += credentials.MAX_AGE
        assert access.credential().tls is tls
        access.refused(access.credential())
        assert access.credential().tls is not tls

    async def test_the_same_holds_for_those_who_may_not_block(
        self, mounted: Path, access: Access, clock: Clock
    ) -> None:
        assert self.token(await access.credential_async()) == "one"
        (mounted / "token").write_text("two")
        clock.now += credentials.MAX_AGE
        assert self.token(await access.credential_async()) == "two"

    @pytest.mark.parametrize("content", [None, " \n", ""])
    def test_a_missing_or_empty_file_is_named_and_found_again(
        self, mounted: Path, access: Access, clock: Clock, content: str | None
    ) -> None:
        (mounted / "token").unlink()
        if content is not None:
            (mounted / "token").write_text(content)
        clock.now += credentials.MAX_AGE
        with pytest.raises(NoAccess, match=r"[tT]oken"):
            access.credential()
        (mounted / "token").write_text("back")
        assert self.token(access.credential()) == "back"


class TestPlugIns:
    async def test_the_token_of_a_plug_in_is_kept_until_it_is_refused(self, tmp_path: Path) -> None:
        far = "2999-01-01T00:00:00Z"
        user = printing(
            tmp_path, {"token": "one", "expirationTimestamp": far}, {"token": "two", "expirationTimestamp": far}
        )
        clock = Clock()
        access = credentials.from_kubeconfig([kubeconfig(tmp_path / "config", user)], clock=clock)
        clock.now += credentials.MAX_AGE
        assert (await access.credential_async()).header == "Bearer one"
        assert access.credential().header == "Bearer one"
        assert runs(tmp_path) == 1
        access.refused(access.credential())
        assert (await access.credential_async()).header == "Bearer two"

    def test_the_environment_of_a_plug_in_is_the_kubeconfigs(self, tmp_path: Path) -> None:
        script = (
            "import json, os; print(json.dumps({'kind': 'ExecCredential', "
            f"'apiVersion': '{API_VERSION}', 'status': {{'token': os.environ['WORD']}}}}))"
        )
        user = plug_in(tmp_path, script, env=[{"name": "WORD", "value": "told"}])
        assert credentials.load(kubeconfig(tmp_path / "config", user)).credential().header == "Bearer told"

    def test_a_token_about_to_expire_is_replaced_but_not_at_every_request(self, tmp_path: Path) -> None:
        user = printing(tmp_path, {"token": "t", "expirationTimestamp": "2001-01-01T00:00:00Z"})
        clock = Clock()
        access = credentials.from_kubeconfig([kubeconfig(tmp_path / "config", user)], clock=clock)
        before = runs(tmp_path)
        access.credential()
        access.credential()
        assert runs(tmp_path) == before
        clock.now += credentials.MAX_AGE
        access.credential()
        assert runs(tmp_path) == before + 1

    @pytest.mark.parametrize(
        ("script", "said"),
        [
            ("import sys; sys.exit('log in first')", "log in first"),
            ("print('hello')", "failed to decode process output"),
            ("print('{\"status\": {}}')", "malformed response"),
        ],
    )
    def test_the_failure_of_a_plug_in_is_told_in_its_own_words(
        self, tmp_path: Path, script: str, said: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.ERROR), pytest.raises(NoAccess, match="exec of user 'u' gave no credential"):
            credentials.load(kubeconfig(tmp_path / "config", plug_in(tmp_path, script)))
        assert said in caplog.text

    def test_one_that_is_not_installed_is_named(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        user: dict[str, Any] = {"exec": {"command": "no-such-plug-in", "apiVersion": "v1"}}
        with pytest.raises(NoAccess, match="exec of user 'u' gave no credential"):
            credentials.load(kubeconfig(tmp_path / "config", user))
        assert "no-such-plug-in" in caplog.text
