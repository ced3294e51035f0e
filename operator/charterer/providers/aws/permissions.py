"""The calls of AWS and the rights that each needs. The policy in docs/clouds/aws.md is made from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

CLUSTER_TAG: Final = "charterer.dev:cluster"
POOL_TAG: Final = "charterer.dev:pool"
RENTAL_TAG: Final = "charterer.dev:rental"
ORDER_TAG: Final = "charterer.dev:order"
GANG_TAG: Final = "charterer.dev:orders."
ABANDON_TAG: Final = "charterer.dev:abandon-after"
"""Tag with the seconds without renewal after which an instance ends itself, or with ``never``."""
RENEWED_TAG: Final = "charterer.dev:renewed"
"""Tag with the time at which the operator last renewed an instance. The keys have no slash, because EC2 shows an
instance no tags whose keys have one (docs: work-with-tags-in-IMDS).
"""

_OWN = {"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": "CLUSTER"}}
_TAGGED = {"StringEquals": {f"aws:RequestTag/{CLUSTER_TAG}": "CLUSTER"}}
_GROUP = "arn:aws:autoscaling:REGION:ACCOUNT:autoScalingGroup:*:autoScalingGroupName/GROUP"
_QUEUE = "arn:aws:sqs:REGION:ACCOUNT:QUEUE"
_LAUNCHED = ("instance", "volume", "network-interface")


def _ec2(*kinds: str) -> tuple[str, ...]:
    return tuple(f"arn:aws:ec2:REGION:{'' if kind == 'image' else 'ACCOUNT'}:{kind}/*" for kind in kinds)


class For(Enum):
    """The kinds of pool that need a right."""

    ALL = "every pool"
    FLEET = "pools with spec.aws.launchTemplate"
    GROUP = "pools with spec.aws.autoScalingGroup"
    SPOT = "pools with capacityType Spot"
    QUEUE = "pools with spec.aws.queue"
    ROLE = "pools with spec.aws.assumeRole"


@dataclass(frozen=True, slots=True)
class IamRight:
    """An IAM action on resources, under a condition. A person has to fill in the words in capitals."""

    action: str
    resources: tuple[str, ...] = ("*",)
    condition: Mapping[str, Any] = field(default_factory=dict)


class Call(Enum):
    """A call: its service, its operation, and whether it changes anything."""

    CREATE_FLEET = ("ec2", "CreateFleet", True)
    RUN_INSTANCES = ("ec2", "RunInstances", True)  # as a dry run only
    TERMINATE_INSTANCES = ("ec2", "TerminateInstances", True)
    CREATE_TAGS = ("ec2", "CreateTags", True)
    DESCRIBE_INSTANCES = ("ec2", "DescribeInstances", False)
    DESCRIBE_TYPES = ("ec2", "DescribeInstanceTypes", False)
    DESCRIBE_OFFERINGS = ("ec2", "DescribeInstanceTypeOfferings", False)
    DESCRIBE_TEMPLATE = ("ec2", "DescribeLaunchTemplateVersions", False)
    DESCRIBE_SUBNETS = ("ec2", "DescribeSubnets", False)
    DESCRIBE_RESERVATIONS = ("ec2", "DescribeCapacityReservations", False)
    SPOT_PRICES = ("ec2", "DescribeSpotPriceHistory", False)
    LAUNCH_INSTANCES = ("autoscaling", "LaunchInstances", True)
    TERMINATE_IN_GROUP = ("autoscaling", "TerminateInstanceInAutoScalingGroup", True)
    DESCRIBE_GROUPS = ("autoscaling", "DescribeAutoScalingGroups", False)
    DESCRIBE_POLICIES = ("autoscaling", "DescribePolicies", False)
    DESCRIBE_SCHEDULES = ("autoscaling", "DescribeScheduledActions", False)
    LIST_PRICES = ("pricing", "GetProducts", False)
    RECEIVE = ("sqs", "ReceiveMessage", False)
    DELETE_MESSAGE = ("sqs", "DeleteMessage", True)
    QUOTA = ("service-quotas", "GetServiceQuota", False)
    IDENTITY = ("sts", "GetCallerIdentity", False)
    ASSUME_ROLE = ("sts", "AssumeRole", False)

    def __init__(self, service: str, operation: str, mutation: bool) -> None:
        self.service = service
        self.operation = operation
        self.mutation = mutation

    @property
    def full_name(self) -> str:
        """Service and operation, as IAM writes them."""
        return f"{self.service.replace('-', '')}:{self.operation}"


_CREATE = {"StringEquals": {"ec2:CreateAction": ["CreateFleet", "RunInstances"]}}
_LAUNCH = (
    IamRight("ec2:RunInstances", _ec2("instance", "volume"), _TAGGED),
    IamRight(
        "ec2:RunInstances",
        _ec2("network-interface", "image", "key-pair", "launch-template", "security-group", "subnet", "placement-group")
        + _ec2("capacity-reservation", "spot-instances-request", "snapshot"),
    ),
    IamRight("ec2:CreateTags", _ec2("fleet", "spot-instances-request", *_LAUNCHED), _CREATE),
    IamRight("iam:PassRole", ("NODE_ROLE_ARN",), {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}),
)

RIGHTS: Final[Mapping[Call, tuple[For, tuple[IamRight, ...]]]] = {
    Call.CREATE_FLEET: (For.FLEET, (IamRight("ec2:CreateFleet", _ec2("fleet", "launch-template", "subnet")),)),
    Call.RUN_INSTANCES: (For.FLEET, _LAUNCH),
    Call.TERMINATE_INSTANCES: (For.ALL, (IamRight("ec2:TerminateInstances", _ec2("instance"), _OWN),)),
    Call.CREATE_TAGS: (For.ALL, (IamRight("ec2:CreateTags", _ec2("instance"), _OWN),)),
    Call.DESCRIBE_INSTANCES: (For.ALL, (IamRight("ec2:DescribeInstances"),)),
    Call.DESCRIBE_TYPES: (For.ALL, (IamRight("ec2:DescribeInstanceTypes"),)),
    Call.DESCRIBE_OFFERINGS: (For.FLEET, (IamRight("ec2:DescribeInstanceTypeOfferings"),)),
    Call.DESCRIBE_TEMPLATE: (For.ALL, (IamRight("ec2:DescribeLaunchTemplateVersions"),)),
    Call.DESCRIBE_SUBNETS: (For.ALL, (IamRight("ec2:DescribeSubnets"),)),
    Call.DESCRIBE_RESERVATIONS: (For.ALL, (IamRight("ec2:DescribeCapacityReservations"),)),
    Call.SPOT_PRICES: (For.SPOT, (IamRight("ec2:DescribeSpotPriceHistory"),)),
    Call.LAUNCH_INSTANCES: (
        For.GROUP,
        (IamRight("autoscaling:LaunchInstances", (_GROUP,)), IamRight("ec2:CreateFleet")),
    ),
    Call.TERMINATE_IN_GROUP: (For.GROUP, (IamRight("autoscaling:TerminateInstanceInAutoScalingGroup", (_GROUP,)),)),
    Call.DESCRIBE_GROUPS: (For.GROUP, (IamRight("autoscaling:DescribeAutoScalingGroups"),)),
    Call.DESCRIBE_POLICIES: (For.GROUP, (IamRight("autoscaling:DescribePolicies"),)),
    Call.DESCRIBE_SCHEDULES: (For.GROUP, (IamRight("autoscaling:DescribeScheduledActions"),)),
    Call.LIST_PRICES: (For.ALL, (IamRight("pricing:GetProducts"),)),
    Call.RECEIVE: (For.QUEUE, (IamRight("sqs:ReceiveMessage", (_QUEUE,)),)),
    Call.DELETE_MESSAGE: (For.QUEUE, (IamRight("sqs:DeleteMessage", (_QUEUE,)),)),
    Call.QUOTA: (For.ALL, (IamRight("servicequotas:GetServiceQuota"),)),
    Call.IDENTITY: (For.ALL, ()),  # this call needs no right
    Call.ASSUME_ROLE: (For.ROLE, (IamRight("sts:AssumeRole", ("ROLE_ARN",)),)),
}
"""The rights that each call needs, and the kinds of pools for which it needs them. A call that is not here cannot be
made.
"""


def policy(kinds: Iterable[For]) -> str:
    """The smallest IAM policy for those kinds of pool, as JSON. A person has to fill in the words in capitals."""
    wanted = frozenset(kinds)
    rights = dict.fromkeys(
        (right.action, right.resources, json.dumps(right.condition, sort_keys=True))
        for kind, those in RIGHTS.values()
        if kind in wanted
        for right in those
    )
    statements: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for action, resources, condition in rights:
        statements.setdefault((resources, condition), []).append(action)
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [_statement(actions, *key) for key, actions in statements.items()],
        },
        indent=2,
    )


def _statement(actions: list[str], resources: tuple[str, ...], condition: str) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Action": sorted(actions), "Resource": list(resources)}
    return statement | ({"Condition": json.loads(condition)} if condition != "{}" else {})
