"""A credential that needs nobody to ask."""

from __future__ import annotations

import time
from typing import Any

from azure.core.credentials import AccessToken, AccessTokenInfo


class Credential:
    """Has the same token for everything."""

    def __init__(self, token: str = "token") -> None:
        self._token = token

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """The token, good for an hour."""
        return AccessToken(self._token, int(time.time()) + 3600)

    def get_token_info(self, *scopes: str, **options: Any) -> AccessTokenInfo:
        """The same, as newer pipelines ask."""
        return AccessTokenInfo(self._token, int(time.time()) + 3600)
