"""The command for graphs that do not fit in memory: `nodegp prepare`."""

from __future__ import annotations

from nodegp.cli import show as terminal
from nodegp.cli.options import comma_list, takes

__all__ = ["prepare"]


@takes(
    "nodes! edges! out! id label source target weight features exclude text svd ignore_unknown "
    "memory sep encoding force dry_run as_json quiet"
)
def prepare(nodes, edges, out, force, dry_run, as_json, quiet, **options):
    """Turn tables of any size into a stored graph: a folder that is read a part at a time.

    For graphs that do not fit in memory. Nodes and edges are files or folders of files, Parquet or
    CSV; the files of a folder are read in the order of their names. A row per node with its id and
    its features, a row per edge with two ids. Labels are no features: name their column in --label,
    and they are kept for `nodegp fit --store`; leave other answers out with --exclude.

    nodegp prepare --nodes papers/ --edges cites/ --label topic -o store/

    The edges are those that `nodegp fit` makes of the same tables: they have no direction, one that
    is given several times has the largest of its weights, and those from a node to itself are
    dropped. Features that are numbers stay as they are, and must have no gaps.

    It takes about --memory and 16 bytes for each node, whatever the number of edges, and twice the
    size of the store on disk. Killed or out of disk, it goes on where it was when the same command
    is run again; --dry-run says what there is and what it will take, and writes nothing.

    Words of --text columns, and lists of the numbers of features that a node has, are wide sparse
    features. With --svd 128 they become that many dense columns, which a model from disk can use
    best.
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
            terminal.facts(plan, "What there is, and what it will take")
        return
    if not (quiet or as_json):
        terminal.facts(preparation.plan(), "What there is, and what it will take")
    result = preparation.run(force)
    if as_json:
        terminal.as_json(result)
    elif not quiet:
        terminal.facts(store_facts(result), "The stored graph")
        print(f"written to {out}")
