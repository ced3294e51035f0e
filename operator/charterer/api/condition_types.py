"""The types of conditions, of all kinds."""

from __future__ import annotations

from enum import StrEnum


class ConditionType(StrEnum):
    """The aspect of an object that a condition observes."""

    READY = "Ready"
    WITHIN_BUDGET = "WithinBudget"
    PRICE_DATA_FRESH = "PriceDataFresh"
    DECLARED_LOAD_CONFIRMED = "DeclaredLoadConfirmed"
    OVERLAPS = "Overlaps"
    CURRENCY_RATE_CURRENT = "CurrencyRateCurrent"
    LEFT_RUNNING = "LeftRunning"
    COSTS_RECORDED = "CostsRecorded"
    COMMITMENTS_COVERED = "CommitmentsCovered"
    COMMITMENT_KEPT = "CommitmentKept"
    STOPPED = "Stopped"
    PRICE_HELD = "PriceHeld"
    SPEED_GUESSED = "SpeedGuessed"
    PREFLIGHT = "Preflight"
    ADMITTED = "Admitted"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    PODS_READY = "PodsReady"
    RESIZING = "Resizing"
    BUDGET_LIMITED = "BudgetLimited"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    ON_TARGET = "OnTarget"
    WITHIN_MAX_COST = "WithinMaxCost"
    TEMPLATE_CURRENT = "TemplateCurrent"
    SLOW_WORKER = "SlowWorker"
    SLOW_NODE = "SlowNode"
    INPUT_STARVED = "InputStarved"
    SYNC_BOUND = "SyncBound"
    CHECKPOINT_TOO_LONG = "CheckpointTooLong"
    STALLED = "Stalled"
