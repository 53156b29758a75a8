"""`swarm plugin marketplace add|list|update|remove`; see docs/plugins.md."""

import os
from datetime import UTC, datetime

import click

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.roles.config.layers.toml_edit import ConfigEdit
from swarm.roles.parts.plugins.files.plugin_id import check_name

from ....base.safe_text import clean_line
from ....parts.plugins.marketplaces import (
    FetchedMarketplace,
    KnownMarketplace,
    drop_copy,
    fetch_marketplace,
    forget_copy,
    keep_copy,
    parse_source,
    read_known,
)
from ....runs.paths import find_user_paths
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..run_setup.run_requirements import find_requirements
from .config_edit_commands import edit_user_config, warn_if_overridden
from .plugin_add_command import marketplaces_here
from .plugin_offer import plugin_store


@click.group("marketplace")
def marketplace() -> None:
    """Add, list, update and remove marketplaces: lists of plugins.

    \b
    Example:
      swarm plugin marketplace add acme/plugins
    """


@marketplace.command("add", cls=ColorCommand)
@click.argument("source")
@click.option("--ref", default="", help="A branch, tag or commit of a git repository.")
@click.option("--sparse", multiple=True, help="Read only this path of a git repository; repeat it.")
def add_marketplace(source: str, *, ref: str, sparse: tuple[str, ...]) -> None:
    """Add a marketplace: a folder, an archive, owner/repo[@ref], URL[#ref] or an ssh address.

    Nothing is installed by it.

    \b
    Examples:
      swarm plugin marketplace add ./our-plugins
      swarm plugin marketplace add acme/plugins@main
      swarm plugin marketplace add acme/mono --sparse tools/plugins
    """
    origin = parse_source(source, ref=ref, sparse=sparse)
    known = marketplaces_here()
    for one in known.values():
        if one.origin == origin:
            click.echo(f"Marketplace `{one.name}` is already added from {origin.source}.")
            return
    fetched = _fetch(KnownMarketplace(name="", origin=origin, root=""))
    name = fetched.file.name
    if name in known:
        drop_copy(fetched)
        raise UsageError(
            f"there is a marketplace `{name}` already, from {known[name].origin.source}; remove it "
            "first"
        )
    _keep(fetched)
    click.echo(f"Added marketplace `{name}` with {len(fetched.file.entries)} plugins.")


@marketplace.command("list", cls=ColorCommand)
@click.option("--plugins", "with_plugins", is_flag=True, help="Also what each one offers.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a marketplace.")
def list_marketplaces(*, with_plugins: bool, as_json: bool) -> None:
    """All marketplaces, from their local files.

    \b
    Example:
      swarm plugin marketplace list --plugins
    """
    known = marketplaces_here()
    rows: list[tuple[str, ...]] = []
    offered: list[tuple[str, ...]] = []
    for name, one in sorted(known.items()):
        try:
            entries, problem = read_known(one).entries, ""
        except UsageError as error:
            entries, problem = (), str(error)
        if as_json:
            print_json({
                "name": name, "source": one.origin.source, "source_type": one.origin.kind,
                "ref": one.origin.ref, "revision": one.revision, "problem": problem,
                "plugins": [entry.name for entry in entries],
            })  # fmt: skip
        rows.append(
            (
                name,
                problem or f"{len(entries)} plugins",
                one.origin.source,
                one.revision,
                one.updated,
            )
        )
        offered += [(f"{one.name}@{name}", one.version, one.description) for one in entries]
    if as_json:
        return
    if not rows:
        click.echo("no marketplaces; `swarm plugin marketplace add SOURCE` adds one")
        return
    print_columns(("MARKETPLACE", "OFFERS", "FROM", "REVISION", "READ"), rows)
    if with_plugins:
        print_columns(("PLUGIN", "VERSION", "WHAT IT IS FOR"), offered)


@marketplace.command("update", cls=ColorCommand)
@click.argument("name", required=False)
def update_marketplaces(name: str | None) -> None:
    """Read one marketplace again, or all. Installed plugins stay as they are.

    \b
    Example:
      swarm plugin marketplace update team
    """
    known = marketplaces_here()
    if name is not None and name not in known:
        raise UsageError(
            f"there is no marketplace `{name}`; there are: {', '.join(known) or 'none'}"
        )
    failed = 0
    for one in [known[name]] if name is not None else list(known.values()):
        try:
            _update_one(one)
        except SwarmError as error:
            if name is not None:
                raise
            failed += 1
            click.echo(f"swarm: {one.name}: {clean_line(str(error), limit=800)}", err=True)
    if failed:
        raise UsageError(f"{failed} of {len(known)} marketplaces could not be read")


# Codex's name of it.
marketplace.add_command(update_marketplaces, "upgrade")


def _update_one(one: KnownMarketplace) -> None:
    fetched = _fetch(one)
    if fetched.file.name != one.name:
        drop_copy(fetched)
        raise UsageError(f"it calls itself `{fetched.file.name}` now; remove it and add it again")
    is_same = one.origin.kind != "local" and fetched.revision == one.revision
    if is_same:
        drop_copy(fetched)
    else:
        _keep(fetched)
    state = "has not changed" if is_same else f"offers {len(fetched.file.entries)} plugins"
    click.echo(
        f"Marketplace `{one.name}` {state}; `swarm plugin update` compares what is installed."
    )


@marketplace.command("remove", cls=ColorCommand)
@click.argument("name")
def remove_marketplace(name: str) -> None:
    """Forget a marketplace and its local copy. Plugins that came from it stay.

    \b
    Example:
      swarm plugin marketplace remove team
    """
    check_name(name, "marketplace")
    if name not in marketplaces_here():
        raise UsageError(f"there is no marketplace `{name}`")
    edit_user_config(ConfigEdit(steps=("marketplaces", name)), None)
    forget_copy(plugin_store(), name)
    click.echo(f"Removed marketplace `{name}`.")


def _fetch(one: KnownMarketplace) -> FetchedMarketplace:
    fetched = fetch_marketplace(
        one.origin,
        plugin_store(),
        find_requirements(os.environ),
        find_user_paths(dict(os.environ)).hidden,
    )
    for warning in fetched.file.warnings:
        click.echo(f"swarm: warning: {clean_line(warning, limit=400)}", err=True)
    return fetched


def _keep(fetched: FetchedMarketplace) -> None:
    """Put the copy in place, and write the configuration."""
    values: dict[str, object] = {
        "source_type": fetched.origin.kind,
        "source": fetched.origin.source,
        "ref": fetched.origin.ref,
        "sparse_paths": list(fetched.origin.sparse),
        "last_revision": fetched.revision,
        "last_updated": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    table = {key: value for key, value in values.items() if value}
    try:
        keep_copy(plugin_store(), fetched)
        edit = ConfigEdit(steps=("marketplaces", fetched.file.name), value=table)
        warn_if_overridden(edit_user_config(edit, None))
    except OSError as error:
        raise UsageError(f"the marketplace could not be kept: {error}") from error
    finally:
        drop_copy(fetched)
