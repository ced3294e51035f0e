"""``purser crds``: the schemas of Purser's kinds."""

from __future__ import annotations

import click


@click.command()
def crds() -> None:
    """Print the CustomResourceDefinitions of this version.

    \b
      purser crds | kubectl apply --server-side -f -
    """
    from purser.api.schema import crd_files

    click.echo("---\n".join(text for _, text in crd_files()), nl=False)
