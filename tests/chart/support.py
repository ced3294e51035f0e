"""Rendering the chart with the real helm, without a cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.testbed import build

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "charterer"
CRDS = ROOT / "charts" / "charterer-crds"
NAMESPACE = "charterer-system"
EVERYTHING = """
image:
  repository: example/charterer
  digest: sha256:0000000000000000000000000000000000000000000000000000000000000000
  pullPolicy: Always
  pullSecrets: [registry]
namespaces: [research, vision]
replicas: 2
logLevel: DEBUG
logFormat: json
traces: {endpoint: "http://collector.monitoring:4318"}
surveySeconds: 5
resyncSeconds: 60
extraEnv: [{name: CHARTERER_FAKECLOUD_TOKEN, valueFrom: {secretKeyRef: {name: cloud, key: token}}}]
extraArgs: [--moving-survey-seconds=2]
extraVolumes: [{name: kubeconfig, secret: {secretName: cloud}}]
extraVolumeMounts: [{name: kubeconfig, mountPath: /etc/cloud, readOnly: true}]
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 2Gi}}
nodeSelector: {role: system}
tolerations: [{key: system, operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
priorityClassName: system-cluster-critical
podAnnotations: {a: b}
podLabels: {team: platform}
keepOff: {taint: example.com/rented, exceptNamespaces: [kube-system, logging]}
metrics: {enabled: true, from: [{namespaceSelector: {matchLabels: {name: prometheus}}}]}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/charterer"}}
serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
jobMetrics: true
limits: {nodes: 0, dollarsPerHour: "500.00"}
dryRun: true
costRecord:
  labels: [example.com/team, project]
  users: true
  volume: {enabled: true, size: 3Gi, storageClassName: slow, accessMode: ReadWriteMany}
reports:
  enabled: true
  schedule: "*/5 * * * *"
  thresholds: [90]
  monthly: false
  webhook: {secretName: hook, secretKey: address, format: teams}
  serviceAccountAnnotations: {iam.gke.io/gcp-service-account: reports@example.iam.gserviceaccount.com}
  extraEnv: [{name: AWS_REGION, value: eu-central-1}]
prometheusRule: {enabled: true, labels: {release: prometheus}, runbooksUrl: "https://example.org/runbooks/"}
grafanaDashboard: {enabled: true, annotations: {grafana_folder: Training}}
karpenter: {enabled: true, nodeClasses: [ec2nodeclasses.karpenter.k8s.aws]}
kueue: {enabled: true, owners: [rayjobs.ray.io]}
fakeCloud:
  enabled: true
  persistence: {enabled: true, size: 2Gi, storageClassName: fast}
"""

Object = dict[str, Any]


class HelmRefused(Exception):
    """What helm said."""


def helm(*arguments: str, values: str = "") -> str:
    """What helm prints; HelmRefused with its stderr when it fails. ``values`` is YAML."""
    command = [str(build.locate().helm), *arguments, *(["--values", "-"] if values else [])]
    done = subprocess.run(command, input=values, capture_output=True, text=True)
    if done.returncode != 0:
        raise HelmRefused(done.stderr + done.stdout)
    return done.stdout


def render(values: str = "") -> list[Object]:
    """Every object of the chart, as the API server would get it."""
    kubernetes = build.pinned(build.kubernetes_module(), "k8s.io/kubernetes")
    text = helm("template", "charterer", str(CHART), "-n", NAMESPACE, "--kube-version", kubernetes, values=values)
    return [document for document in yaml.safe_load_all(text) if document is not None]


def only(objects: list[Object], kind: str, name: str) -> Object:
    """The one object of that kind and name."""
    (found,) = [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]
    return found


def pod_specs(objects: list[Object]) -> list[Object]:
    """The pod specs of all Deployments and Jobs."""
    return [o["spec"]["template"]["spec"] for o in objects if o["kind"] in ("Deployment", "Job")]


def rules(objects: list[Object], *names: str) -> list[Object]:
    """The rules of the roles of these names."""
    return [
        rule
        for o in objects
        if o["kind"] in ("ClusterRole", "Role") and o["metadata"]["name"] in names
        for rule in o["rules"]
    ]
