#!/bin/sh
# A GPUPool for each machine type, zone and capacity type: sh examples/karpenter/pools.sh | kubectl apply -f -
set -eu
for machine in ${MACHINES:-p4d.24xlarge:NVIDIA-A100-SXM4-40GB:8 p5.48xlarge:NVIDIA-H100-80GB-HBM3:8 g6e.12xlarge:NVIDIA-L40S:4}; do
  IFS=: read -r type gpu count <<END
$machine
END
  for zone in ${ZONES:-us-east-1a us-east-1b us-east-1c}; do
    for capacity in ${CAPACITY:-OnDemand Spot}; do
      suffix=; [ "$capacity" = OnDemand ] || suffix=-spot
      cat <<END
---
apiVersion: charterer.dev/v1alpha1
kind: GPUPool
metadata:
  name: $(echo "$type" | tr . -)-$zone$suffix
spec:
  karpenter:
    nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
    instanceType: $type
    zone: $zone
    gpuType: $gpu
    gpusPerNode: $count
    priceMetrics: http://karpenter.kube-system.svc:8080/metrics
    abandonAfterSeconds: 604800
    taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
  maxNodes: ${MAX_NODES:-2}
  capacityType: $capacity
  startSeconds: 300
END
    done
  done
done
