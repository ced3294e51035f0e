#!/usr/bin/env bash
# What a first month on a real account was like, as text to read through and send back: examples/first-month/report.sh REGION
# It only reads, with kubectl, charterer and the AWS command line.
set -euo pipefail
region=${1:?"usage: $0 REGION"}
cluster=$(kubectl get namespace kube-system --output jsonpath='{.metadata.uid}')

section() { printf '\n== %s\n' "$*"; }

section "versions"
kubectl version --output yaml | grep gitVersion
charterer --version
section "budget: what the ledger says"
kubectl get gpubudget first-month --output jsonpath='spent {.status.spent}, since ever {.status.lifetime}, {range .status.attribution[*]}{.name} {.spent}; {end}{"\n"}'
section "rentals that are left (none once all has ended)"
kubectl get gpurentals
section "what doctor says"
charterer doctor || true
section "machines that EC2 still lists (ended ones for about an hour)"
aws ec2 describe-instances --region "$region" --filters "Name=tag:charterer.dev:cluster,Values=$cluster" --output table \
  --query 'Reservations[].Instances[].[InstanceId,InstanceType,LaunchTime,State.Name,StateTransitionReason]'
section "Events of Charterer about the jobs"
kubectl get events --namespace first-month --sort-by=.metadata.creationTimestamp
section "what the invoice says, by day (the tag charterer.dev:cluster has to be activated for cost allocation)"
aws ce get-cost-and-usage --granularity DAILY --metrics UnblendedCost --group-by Type=DIMENSION,Key=USAGE_TYPE \
  --time-period "Start=$(date -u +%Y-%m-01),End=$(date -u -d tomorrow +%Y-%m-%d)" \
  --filter "{\"Tags\": {\"Key\": \"charterer.dev:cluster\", \"Values\": [\"$cluster\"]}}" --output table
