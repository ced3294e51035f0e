"""A Jupyter kernel whose cells get a GPU only while they need a GPU: docs/capacity/notebooks.md.

The images of the notebook and of the GPU's pod need ``pip install './trainer[jupyter]'``. ``kernel`` runs in the
notebook server's pod and holds all values. ``worker`` runs in the pod of a TrainingJob with ``spec.interactive`` and
executes the cells that need a GPU.
"""
