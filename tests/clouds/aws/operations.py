"""Every call that an account answers, by service and operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.clouds.aws import autoscaling, ec2, fleets, services
from tests.clouds.aws.account import Account
from tests.clouds.aws.protocol import Params

OPERATIONS: Mapping[str, Callable[[Account, Params, str], Params]] = {
    "ec2:CreateFleet": fleets.create_fleet,
    "ec2:CreateTags": ec2.create_tags,
    "ec2:DescribeCapacityReservations": ec2.describe_capacity_reservations,
    "ec2:DescribeInstanceTypeOfferings": ec2.describe_instance_type_offerings,
    "ec2:DescribeInstanceTypes": ec2.describe_instance_types,
    "ec2:DescribeInstances": ec2.describe_instances,
    "ec2:DescribeLaunchTemplateVersions": ec2.describe_launch_template_versions,
    "ec2:DescribeSpotPriceHistory": ec2.describe_spot_price_history,
    "ec2:DescribeSubnets": ec2.describe_subnets,
    "ec2:RunInstances": ec2.run_instances,
    "ec2:TerminateInstances": ec2.terminate_instances,
    "autoscaling:DescribeAutoScalingGroups": autoscaling.describe_auto_scaling_groups,
    "autoscaling:DescribePolicies": autoscaling.describe_policies,
    "autoscaling:DescribeScheduledActions": autoscaling.describe_scheduled_actions,
    "autoscaling:LaunchInstances": autoscaling.launch_instances,
    "autoscaling:TerminateInstanceInAutoScalingGroup": autoscaling.terminate_instance_in_auto_scaling_group,
    "pricing:GetProducts": services.get_products,
    "servicequotas:GetServiceQuota": services.get_service_quota,
    "sqs:DeleteMessage": services.delete_message,
    "sqs:ReceiveMessage": services.receive_message,
    "sts:AssumeRole": services.assume_role,
    "sts:GetCallerIdentity": services.get_caller_identity,
}
