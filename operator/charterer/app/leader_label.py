"""The label by which the Service of the progress endpoint selects the leader's pod."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NoReturn

from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, NotFound
from charterer.cluster.paths import PODS
from charterer.controller.backoff import Backoff

_log = logging.getLogger(__name__)

_LABEL: Final = "charterer.dev/leader"
_FIRST_RETRY_SECONDS: Final = 1.0
_LAST_RETRY_SECONDS: Final = 30.0


class LeaderLabel:
    """Keeps the label of this process's pod what it should be: "false" until it leads, which a former process of the
    pod may have done.

    ``client`` must be able to write without leading.
    """

    def __init__(self, client: Client, namespace: str, pod: str) -> None:
        self._client = client
        self._path = PODS.one(pod, namespace)
        self._leads = False
        self._changed = asyncio.Event()
        self._changed.set()
        self._backoff: Backoff[None] = Backoff(asyncio.get_running_loop().time, _FIRST_RETRY_SECONDS)

    def leads(self) -> None:
        """This process leads, and serves progress."""
        self._leads = True
        self._changed.set()

    async def run(self) -> NoReturn:
        """Write the label whenever it should be another, again and again until that is done; until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            leader = "true" if self._leads else "false"
            try:
                await self._client.merge_patch(self._path, {"metadata": {"labels": {_LABEL: leader}}})
            except NotFound as error:  # outside a cluster there is no such pod
                _log.info("not labelled as leader=%s: %s", leader, error)
            except ApiError as error:
                seconds = self._backoff.failed(None, _LAST_RETRY_SECONDS, error.retry_after)
                _log.warning("not labelled as leader=%s, again in %g s: %s", leader, seconds, error)
                self._changed.set()
                await asyncio.sleep(seconds)
            else:
                self._backoff.succeeded(None)
