"""Ways to make nodes of Google Cloud: members of a group, resize requests of a group, bulk inserts of a template."""
