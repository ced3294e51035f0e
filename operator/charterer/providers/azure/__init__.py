"""Azure: VMs of scale sets, and of node pools of AKS.

Only this package imports Azure's SDKs, and only when a pool of Azure exists. It uses the SDK's own credentials.
"""
