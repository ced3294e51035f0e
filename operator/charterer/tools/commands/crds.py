"""``charterer crds`` prints the CustomResourceDefinitions of Charterer's kinds."""

from __future__ import annotations

import click


@click.command()
def crds() -> None:
    """Print the CustomResourceDefinitions of this version.

    \b
      charterer crds | kubectl apply --server-side -f -
    """
    from charterer.api.schema import crd_files

    click.echo("---\n".join(text for _, text in crd_files()), nl=False)
