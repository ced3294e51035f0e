"""Reports progress to the operator as a pod's trainer would: by HTTPS, with a token bound to the pod."""

from __future__ import annotations

import ssl
from collections import Counter

import aiohttp

from demo.kube import RETRIABLE, Json, Kube, KubeError
from demo.pods import INDEX, LABEL_JOB_UID, environment, run_of

_TIMEOUT = aiohttp.ClientTimeout(total=5)


class Reporter:
    """Posts reports and caches each pod's token. ``answers`` counts responses by HTTP status, 0 for no response."""

    def __init__(self, kube: Kube, session: aiohttp.ClientSession) -> None:
        self._kube = kube
        self._session = session
        self._tokens: dict[str, str] = {}
        self._authorities: dict[str, ssl.SSLContext] = {}
        self.answers: Counter[int] = Counter()

    async def report(self, pod: Json, fraction: float, throughput: float) -> None:
        """Post a report of a pod. Failures are only counted, because a trainer continues without the operator."""
        uid = pod["metadata"]["uid"]
        env = environment(pod)
        try:
            if uid not in self._tokens:
                audience = f"charterer.dev/tj/{pod['metadata']['labels'][LABEL_JOB_UID]}"
                self._tokens[uid] = await self._kube.pod_token(pod, audience)
            body = {
                "run": run_of(pod),
                "index": int(pod["metadata"]["labels"].get(INDEX, 0)),
                "fraction": fraction,
                "throughput": throughput,
            }
            async with self._session.post(
                env["CHARTERER_PROGRESS_URL"].rstrip("/").removesuffix("/v1/progress") + "/v1/progress",
                json=body,
                headers={"Authorization": f"Bearer {self._tokens[uid]}"},
                ssl=self._trust(env["CHARTERER_CA"]),
                timeout=_TIMEOUT,
            ) as response:
                self.answers[response.status] += 1
                if response.status == 401:
                    del self._tokens[uid]
        except (*RETRIABLE, KubeError, KeyError, ssl.SSLError):
            self.answers[0] += 1

    def _trust(self, authority: str) -> ssl.SSLContext:
        if authority not in self._authorities:
            self._authorities[authority] = ssl.create_default_context(cadata=authority)
        return self._authorities[authority]
