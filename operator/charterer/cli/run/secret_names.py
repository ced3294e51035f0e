"""Names of files and variables that usually hold secrets: what goes along with a job is read by whoever may read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

_FILES: Final = re.compile(
    r"\.env(\..*)?|\.?netrc|\.pypirc|\.git-credentials|\.dockercfg|\.dockerconfigjson|\.htpasswd|\.pgpass|"
    r"id_(rsa|dsa|ecdsa|ed25519)|(.*[._-])?kubeconfig(\.ya?ml)?|.*\.(key|p12|pfx|jks|kdbx)|.*[-_.]?key\.pem|"
    r"(.*[-_])?service[-_]?account(.*)?\.json|(.*[-_.])?credentials(\.(json|ya?ml|ini|csv))?|"
    r"(.*[-_.])?secrets?(\.(json|ya?ml|ini|toml|env))?",
    re.IGNORECASE,
)
_EXAMPLES: Final = re.compile(r".*[._-](example|sample|template|dist)(\..*)?", re.IGNORECASE)
_PATHS: Final = (".kube/config", ".docker/config.json", ".config/gcloud/application_default_credentials.json")
_VARIABLES: Final = re.compile(
    r"(.*_)?(API_?KEY|ACCESS_KEY|SECRET(_.*)?|PRIVATE_KEY|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)", re.IGNORECASE
)


def secret_files(paths: Iterable[str]) -> Sequence[str]:
    """Those of the paths that usually hold secrets; examples of such files do not."""

    def tells(path: str) -> bool:
        name = PurePosixPath(path).name
        known = _FILES.fullmatch(name) is not None and _EXAMPLES.fullmatch(name) is None
        return known or any(path == end or path.endswith(f"/{end}") for end in _PATHS)

    return [path for path in paths if tells(path)]


def secret_variables(names: Iterable[str]) -> Sequence[str]:
    """Those of the variables that usually hold secrets."""
    return [name for name in names if _VARIABLES.fullmatch(name)]
