"""Notification of the tasks that wait for a change."""

from __future__ import annotations

import asyncio


class ChangeNotifier:
    """Every listener has an event of its own; ``notify`` sets it, and the listener clears it before it looks."""

    def __init__(self) -> None:
        self._listeners: list[asyncio.Event] = []

    def listener(self) -> asyncio.Event:
        """A new event, already set so that its owner looks at once."""
        event = asyncio.Event()
        event.set()
        self._listeners.append(event)
        return event

    def notify(self) -> None:
        """Set every listener's event."""
        for event in self._listeners:
            event.set()
