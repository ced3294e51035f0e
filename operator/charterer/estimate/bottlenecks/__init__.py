"""Bottlenecks of running jobs: windows of reports in, findings out."""
