"""Reads the files in which clouds export their bills. Only this package imports DuckDB (the extra ``bill``)."""

from __future__ import annotations
