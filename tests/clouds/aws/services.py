"""SQS, STS and the price list, as far as the adapter uses them."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

from tests.clouds.aws.account import Account
from tests.clouds.aws.paging import page
from tests.clouds.aws.protocol import Fault, Params


def receive_message(account: Account, params: Params, region: str) -> Params:
    """The messages that nobody has received lately."""
    now = account.clock.now
    rows: list[Params] = []
    for index, (visible, handle, body) in enumerate(account.queue):
        if visible <= now and len(rows) < params.get("MaxNumberOfMessages", 1):
            account.queue[index] = (now + timedelta(seconds=params.get("VisibilityTimeout", 30)), handle, body)
            digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
            rows.append({"MessageId": handle, "ReceiptHandle": handle, "Body": body, "MD5OfBody": digest})
    return {"Messages": rows} if rows else {}


def delete_message(account: Account, params: Params, region: str) -> Params:
    """Take a message off the queue; what is not there any more is no error."""
    account.queue = [message for message in account.queue if message[1] != params["ReceiptHandle"]]
    return {}


def get_caller_identity(account: Account, params: Params, region: str) -> Params:
    """Whose credentials they are."""
    arn = f"arn:aws:sts::{account.number}:assumed-role/charterer/session"
    return {"UserId": "AROA", "Account": account.number, "Arn": arn}


def assume_role(account: Account, params: Params, region: str) -> Params:
    """Credentials of a role that may be assumed."""
    if params["RoleArn"] not in account.roles:
        raise Fault("AccessDenied", f"User is not authorized to perform: sts:AssumeRole on {params['RoleArn']}", 403)
    keys = {"AccessKeyId": "ASIAROLEROLEROLE0000", "SecretAccessKey": "secret-of-the-role", "SessionToken": "token"}
    user = {"AssumedRoleId": "AROA:s", "Arn": params["RoleArn"]}
    expiry = {"Expiration": account.clock.now + timedelta(days=3650)}
    return {"Credentials": {**keys, **expiry}, "AssumedRoleUser": user}


VCPU_QUOTAS = {
    "L-417A185B": ("Running On-Demand P instances", "on-demand"),
    "L-DB2E81BA": ("Running On-Demand G and VT instances", "on-demand"),
    "L-7212CCBC": ("All P4, P3 and P2 Spot Instance Requests", "spot"),
    "L-C4BD4855": ("All P5 Spot Instance Requests", "spot"),
    "L-3819A6DF": ("All G and VT Spot Instance Requests", "spot"),
}
"""Name and lifecycle of each quota, by its code."""


def get_service_quota(account: Account, params: Params, region: str) -> Params:
    """The quotas that GPUs need; this account has one number for all families of a lifecycle."""
    if params["ServiceCode"] != "ec2" or params["QuotaCode"] not in VCPU_QUOTAS:
        raise Fault("NoSuchResourceException", "The request failed because the specified quota does not exist.")
    name, lifecycle = VCPU_QUOTAS[params["QuotaCode"]]
    return {"Quota": {**params, "QuotaName": name, "Value": float(account.quota[lifecycle]), "Unit": "None"}}


def get_products(account: Account, params: Params, region: str) -> Params:
    """List prices by type and region. Without the usual filters a type has many rows, as in reality."""
    want = {each["Field"]: each["Value"] for each in params["Filters"]}
    name = want["instanceType"]
    if name not in account.prices or name in account.unpriced or want["regionCode"] != account.region:
        return {"FormatVersion": "aws_v1", "PriceList": []}
    plain = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    plain |= {"marketoption": "OnDemand"}
    variants = [plain, plain | {"operatingSystem": "Windows"}, plain | {"tenancy": "Dedicated"}]
    variants += [plain | {"preInstalledSw": "SQL Std"}, plain | {"capacitystatus": "AllocatedCapacityReservation"}]
    variants += [plain | {"marketoption": "CapacityBlock"}]
    rows = []
    for surcharge, attributes in enumerate(variants):
        facts = attributes | {"instanceType": name, "regionCode": account.region}
        if any(facts.get(field) != value for field, value in want.items()):
            continue
        dollars = f"{account.prices[name] + surcharge:.10f}"
        dimension = {"unit": "Hrs", "pricePerUnit": {"USD": dollars}}
        terms = {
            "OnDemand": {"SKU.T": {"priceDimensions": {"SKU.T.D": dimension}, "effectiveDate": "2026-07-01T00:00:00Z"}}
        }
        rows.append(json.dumps({"product": {"attributes": facts}, "terms": terms}))
    rows, more = page(params, rows, 100)
    return {"FormatVersion": "aws_v1", "PriceList": rows, **more}
