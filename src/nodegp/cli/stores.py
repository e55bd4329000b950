"""The command for graphs that do not fit in memory: `nodegp prepare`."""

from __future__ import annotations

from nodegp.cli import show as terminal
from nodegp.cli.options import comma_list, takes

__all__ = ["prepare"]

_PLAN = "What was found, and what it needs"


@takes(
    "nodes! edges! out! id label source target weight features exclude text svd ignore_unknown "
    "memory sep encoding force dry_run as_json quiet"
)
def prepare(nodes, edges, out, force, dry_run, as_json, quiet, **options):
    """Turn tables of any size into a stored graph: a folder that is read one part at a time.

    For graphs that do not fit in memory. Nodes and edges are files or folders of files, Parquet or
    CSV; the files of a folder are read in alphabetical order. There is a row per node with its id
    and features, and a row per edge with two ids. Name the label column in --label: labels are
    stored for `nodegp fit --store`. Leave out other columns that give the answer with --exclude.

    nodegp prepare --nodes papers/ --edges cites/ --label topic -o store/

    Edges are treated as in `nodegp fit`: they are undirected, duplicates keep the largest weight,
    and self-loops are dropped. Numeric features are stored as they are; missing values are an
    error.

    It needs about --memory plus 16 bytes per node, whatever the number of edges, and twice the size
    of the store on disk. If it is killed or the disk is full, run the same command again and it
    continues where it stopped; --dry-run prints what was found and the resources needed.

    Words of --text columns, and lists of feature indices, are wide sparse features. --svd 128
    reduces them to 128 dense columns, which is usually better for models on disk.
    """
    from nodegp.app.stores import StorePreparation, store_facts

    if options["features"] == "none":
        options["features"] = ""
    for name in ("features", "exclude", "text"):
        options[name] = comma_list(options[name])
    preparation = StorePreparation.of(
        nodes, edges, out, progress=terminal.Terminal(quiet), **options
    )
    if dry_run:
        plan = preparation.plan()
        if as_json:
            terminal.as_json(dict(plan))
        else:
            terminal.facts(plan, _PLAN)
        return
    if not (quiet or as_json):
        terminal.facts(preparation.plan(), _PLAN)
    result = preparation.run(force)
    if as_json:
        terminal.as_json(result)
    elif not quiet:
        terminal.facts(store_facts(result), "The stored graph")
        print(f"written to {out}")
