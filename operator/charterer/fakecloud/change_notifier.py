"""Who wants to know that something has changed."""

from __future__ import annotations

import asyncio


class ChangeNotifier:
    """Each listener has an event of its own, set at every ring, which it clears before it looks."""

    def __init__(self) -> None:
        self._listeners: list[asyncio.Event] = []

    def listener(self) -> asyncio.Event:
        """A new event, already set, so that its owner looks at once."""
        event = asyncio.Event()
        event.set()
        self._listeners.append(event)
        return event

    def ring(self) -> None:
        """Set every listener's event."""
        for event in self._listeners:
            event.set()
