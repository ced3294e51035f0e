#!/bin/sh
# sagemaker-hyperpod 3.12.0 (AWS's command line and SDK of SageMaker HyperPod), Python 3.10 or newer.
#
# If a HyperPodPytorchJob asks for some of a machine's GPUs, the SDK fills in the rest. CPU and memory are the GPUs' part of the
# machine. The network interfaces (vpc.amazonaws.com/efa) are not: a job of one GPU requests, and is limited to, all of them. An
# interface belongs to one pod at a time, so the other seven GPUs of a p5.48xlarge take no second job made with it:
#
#     ml.p5.48xlarge, 1 of 8 GPUs: cpu 24.0 of 192, memory 256.0Gi of 2048, efa 32 of 32
#     ml.p4d.24xlarge, 1 of 8 GPUs: cpu 12.0 of 96, memory 144.0Gi of 1152, efa 4 of 4
#     ml.g6e.48xlarge, 1 of 8 GPUs: cpu 24.0 of 192, memory 192.0Gi of 1536, efa 4 of 4
#
# AWS's page "Allocating compute quota in Amazon SageMaker HyperPod task governance" explains the values left out by one ratio, allocated
# over total, and does not name the interfaces. Where jobs share machines, write vpc.amazonaws.com/efa into the request (1 or more; by
# the code, 0 is taken as not said).
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip="$folder/venv/bin/pip install --quiet --disable-pip-version-check"
# Its own requirements hold a hundred packages (test runners, the AWS command line); these are what the job's class imports.
$pip boto3==1.44.8 kubernetes==35.0.0 pydantic==2.12.5 pyyaml==6.0.3 tabulate==0.9.0 click==8.1.7 requests==2.32.4
$pip --no-deps sagemaker-hyperpod==3.12.0 hyperpod-pytorch-job-template==1.5.0
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
from sagemaker.hyperpod.training import HyperPodPytorchJob
from sagemaker.hyperpod.training.config.hyperpod_pytorch_job_unified_config import _HyperPodPytorchJob
from sagemaker.hyperpod.training.constants import INSTANCE_RESOURCES

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
for machine in ("ml.p5.48xlarge", "ml.p4d.24xlarge", "ml.g6e.48xlarge"):
    container = {"name": "train", "image": "train", "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}
    pod = {"containers": [container], "node_selector": {"node.kubernetes.io/instance-type": machine}}
    spec = _HyperPodPytorchJob(nproc_per_node="1", replica_specs=[{"name": "pod", "replicas": 1, "template": {"spec": pod}}])
    resources = HyperPodPytorchJob.allocate_quotas_if_applicable(spec).replicaSpecs[0].template.spec.containers[0].resources
    asked, whole = resources.requests, INSTANCE_RESOURCES[machine]
    print(
        f"{machine}, {asked[GPU]} of {whole['gpu']} GPUs: cpu {asked['cpu']} of {whole['cpu']}, "
        f"memory {asked['memory']} of {whole['memory']}, efa {asked[EFA]} of {whole['efa']}"
    )
    assert float(asked["cpu"]) == whole["cpu"] / whole["gpu"], "changed: the CPUs are not the GPU's part"
    assert asked[EFA] == resources.limits[EFA] == whole["efa"] > 1, "changed: not all network interfaces are requested"
print("sagemaker-hyperpod 3.12.0: one GPU requests all network interfaces of its machine")
PYTHON
