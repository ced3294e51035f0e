"""The server in front of a subscription: what Azure's SDKs talk to when their ``base_url`` is this one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.clouds.azure.operations import OPERATIONS, Entry
from tests.clouds.azure.protocol import Answer, Body, Call, Fault, check_query, wrong_with
from tests.clouds.azure.subscription import Subscription
from tests.clouds.azure.transport import HttpsServer


class AzureServer:
    """Serves ``subscription``; a test may put another one in its place. See HttpsServer for ``certificate``."""

    def __init__(self, subscription: Subscription, *, tls: bool = True) -> None:
        self.subscription = subscription
        self._https = HttpsServer(self.respond, lambda: self.subscription.clock.now, tls=tls)
        self.url, self.certificate = self._https.url, self._https.certificate

    def __enter__(self) -> AzureServer:
        self._https.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._https.stop()

    def respond(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Answer:
        """The answer; AnswerLost when the connection is to break."""
        subscription, url = self.subscription, urlsplit(target)
        path, query = unquote(url.path), dict(parse_qsl(url.query, keep_blank_values=True))
        try:
            entry, args = _find(method, path)
            name = entry.name
            body = _checked_body(entry, raw)
            check_query(entry.route, query)
            call = Call({**args, "path": path}, query, body, headers, self.url)
            subscription.calls.append((name, args, query, body))
            with subscription.lock:
                _check_caller(subscription, entry, call)
                now = subscription.clock.now
                answer = subscription.faults.around(name, now, lambda: _act(subscription, entry, call))
            _check_answer(entry, answer)
            return answer
        except Fault as fault:
            return Answer(fault.body, fault.status, fault.headers)


def _find(method: str, path: str) -> tuple[Entry, dict[str, str]]:
    for entry in OPERATIONS.values():
        match = entry.route.path.fullmatch(path)
        if match is not None and method == entry.route.method:
            return entry, match.groupdict()
    raise Fault(404, "InvalidResourceType", f"this server has no call {method} {path}")


def _checked_body(entry: Entry, raw: bytes) -> Body:
    if bool(raw) != bool(entry.takes):
        raise Fault(400, "InvalidRequestContent", f"{entry.name}: a body is missing, or there should be none")
    if not raw:
        return {}
    if wrong := wrong_with(entry.provider, entry.takes, raw):
        raise Fault(400, "InvalidRequestContent", f"The request content was invalid: {wrong}")
    body: Body = json.loads(raw)
    return body


def _check_caller(subscription: Subscription, entry: Entry, call: Call) -> None:
    subscription.check_token(call.header("Authorization") or "")
    if call.args["subscription_id"].lower() != subscription.id:
        message = f"The subscription '{call.args['subscription_id']}' could not be found."
        raise Fault(404, "SubscriptionNotFound", message)
    subscription.check_action(entry.action, call.args["path"])
    group = call.args.get("resource_group_name")
    if group is not None and group.lower() not in {each.lower() for each in subscription.groups}:
        raise Fault(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")


def _act(subscription: Subscription, entry: Entry, call: Call) -> Answer:
    subscription.witness("before", entry.name)
    answer = entry.act(subscription, call)
    subscription.witness("after", entry.name)
    return answer


def _check_answer(entry: Entry, answer: Answer) -> None:
    """The server's own answers follow the vendor's description as well."""
    if not entry.gives or answer.body is None:
        return
    bodies = answer.body["value"] if entry.rows else [answer.body]
    for body in bodies:
        wrong = wrong_with(entry.provider, entry.gives, json.dumps(body))
        assert not wrong, f"the answer of this server to {entry.name} is not as described: {wrong}"
