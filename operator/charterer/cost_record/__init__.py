"""The record of costs: files of rows in a folder or a bucket (docs/development/adr/0075-a-record-of-costs.md)."""
