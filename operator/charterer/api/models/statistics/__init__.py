"""The statistics that only Charterer reads, as statuses keep them (``machineState``)."""
