"""Kubeconfigs and service accounts as they are found in the world."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from purser.cluster import credentials, tokens
from purser.cluster.credentials import NoAccess
from purser.cluster.tokens import ExecToken, FileToken, StaticToken, TokenFailed


def kubeconfig(path: Path, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> Path:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ml"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def plug_in(path: Path, script: str, **more: Any) -> dict[str, Any]:
    (path / "plug-in.py").write_text(script)
    return {"exec": {"command": sys.executable, "args": [str(path / "plug-in.py")], "apiVersion": "v1", **more}}


class TestKubeconfig:
    def test_the_current_context_says_where_and_who(self, tmp_path: Path) -> None:
        access = credentials.load(kubeconfig(tmp_path / "config", {"token": "abc"}))
        assert access.server == "https://api:6443"
        assert access.namespace == "ml"
        assert access.token.header() == "Bearer abc"

    def test_files_are_relative_to_the_kubeconfig_and_data_wins_over_files(self, tmp_path: Path) -> None:
        (tmp_path / "ca.pem").write_text("from a file")
        config = kubeconfig(tmp_path / "config", cluster={"certificate-authority": "ca.pem"})
        assert credentials.load(config).ca == "from a file"
        both = {"certificate-authority": "ca.pem", "certificate-authority-data": base64.b64encode(b"inline").decode()}
        config = kubeconfig(tmp_path / "config", cluster=both)
        assert credentials.load(config).ca == "inline"

    def test_of_several_files_the_first_that_names_something_wins(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kubeconfig(tmp_path / "one", {"token": "one"})
        kubeconfig(tmp_path / "two", {"token": "two"})
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent:{tmp_path}/one:{tmp_path}/two")
        assert credentials.load().token.header() == "Bearer one"

    def test_an_unknown_context_is_named_with_those_that_exist(self, tmp_path: Path) -> None:
        with pytest.raises(NoAccess, match=r"contexts has no entry 'there' \(there are: here\)"):
            credentials.load(kubeconfig(tmp_path / "config"), "there")

    def test_no_kubeconfig_at_all_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
        with pytest.raises(NoAccess, match="pass --kubeconfig"):
            credentials.load()

    def test_a_kubeconfig_that_is_not_yaml_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("a: [")
        with pytest.raises(NoAccess, match="config cannot be read"):
            credentials.load(tmp_path / "config")

    def test_an_obsolete_auth_provider_is_refused_with_what_to_use_instead(self, tmp_path: Path) -> None:
        with pytest.raises(NoAccess, match="credential plug-in"):
            credentials.load(kubeconfig(tmp_path / "config", {"auth-provider": {"name": "gcp"}}))

    def test_secrets_do_not_show_in_its_representation(self, tmp_path: Path) -> None:
        access = credentials.load(kubeconfig(tmp_path / "config", {"token": "hush", "client-key-data": "aHVzaA=="}))
        assert "hush" not in repr(access)
        assert "hush" not in repr(StaticToken("Bearer hush"))


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mounted\n")
    (tmp_path / "ca.crt").write_text("authority")
    (tmp_path / "namespace").write_text("purser-system")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = credentials.from_service_account(environment, tmp_path)
    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "purser-system"
    assert access.token.header() == "Bearer mounted"


class TestTokenFiles:
    def test_a_rotated_token_is_read_again_after_a_minute_or_a_refusal(self, tmp_path: Path) -> None:
        now = 1_000.0
        file = tmp_path / "token"
        file.write_text("one")
        source = FileToken(file, clock=lambda: now)
        assert source.header() == "Bearer one"
        file.write_text("two")
        assert source.header() == "Bearer one"
        now += tokens.FILE_MAX_AGE
        assert source.header() == "Bearer two"
        file.write_text("three")
        source.refused()
        assert source.header() == "Bearer three"

    @pytest.mark.parametrize("content", [None, " \n"])
    def test_a_missing_or_empty_file_is_named(self, tmp_path: Path, content: str | None) -> None:
        if content is not None:
            (tmp_path / "token").write_text(content)
        with pytest.raises(TokenFailed, match="token"):
            FileToken(tmp_path / "token").header()


class TestPlugIns:
    async def test_its_token_is_kept_until_it_expires_or_is_refused(self, tmp_path: Path) -> None:
        script = (
            "import json, pathlib, os\n"
            f"runs = pathlib.Path({str(tmp_path / 'runs')!r})\n"
            "n = len(runs.read_text()) + 1 if runs.exists() else 1\n"
            "runs.write_text('x' * n)\n"
            "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
            "print(json.dumps({'status': {'token': f'{os.environ[\"WORD\"]}-{n}', "
            "'expirationTimestamp': '2999-01-01T00:00:00Z'}}))\n"
        )
        user = plug_in(tmp_path, script, env=[{"name": "WORD", "value": "run"}])
        source = credentials.load(kubeconfig(tmp_path / "config", user)).token
        assert isinstance(source, ExecToken)
        assert await source.header_async() == "Bearer run-1"
        assert source.header() == "Bearer run-1"
        source.refused()
        assert await source.header_async() == "Bearer run-2"

    def test_a_token_about_to_expire_is_replaced(self, tmp_path: Path) -> None:
        status = {"status": {"token": "t", "expirationTimestamp": "2001-01-01T00:00:00Z"}}
        (tmp_path / "n").write_text("")
        script = f"open({str(tmp_path / 'n')!r}, 'a').write('x'); print({json.dumps(json.dumps(status))})"
        source = credentials.load(kubeconfig(tmp_path / "config", plug_in(tmp_path, script))).token
        source.header()
        source.header()
        assert (tmp_path / "n").read_text() == "xx"

    @pytest.mark.parametrize(
        ("script", "said"),
        [
            ("import sys; sys.exit('log in first')", "log in first"),
            ("print('hello')", "no ExecCredential"),
            ("print('{\"status\": {}}')", "no ExecCredential"),
        ],
    )
    def test_its_failure_is_told_in_its_own_words(self, tmp_path: Path, script: str, said: str) -> None:
        source = credentials.load(kubeconfig(tmp_path / "config", plug_in(tmp_path, script))).token
        with pytest.raises(TokenFailed, match=said):
            source.header()

    def test_one_that_is_not_installed_is_named(self, tmp_path: Path) -> None:
        user = {"exec": {"command": "no-such-plug-in", "apiVersion": "v1"}}
        with pytest.raises(TokenFailed, match="no-such-plug-in did not run"):
            credentials.load(kubeconfig(tmp_path / "config", user)).token.header()
