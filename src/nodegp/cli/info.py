"""`nodegp info`: what is in a model file."""

from __future__ import annotations

from nodegp.cli import options, show


def command(
    model: options.ModelFile,
    as_json: options.AsJson = False,
) -> None:
    """Show what a model file holds: graph, classes, how the fit went."""
    from nodegp.cli.fit import describe, model_facts
    from nodegp.cli.modelfile import ModelFile

    file = ModelFile.read(model)
    if as_json:
        show.as_json({"file": str(model)} | describe(file))
        return
    graph = file.graph
    counts = describe(file)["label_counts"]
    rows = [
        ("file", str(model)),
        (
            "graph",
            f"{graph.n_nodes:,} nodes, {graph.n_edges:,} edges, {graph.n_features:,} features",
        ),
        ("classes", ", ".join(f"{name} {count:,}" for name, count in counts.items())),
    ]
    if file.tables:
        rows.append(("made from", "; ".join(file.encoder.describe())))
    show.facts([*rows, *model_facts(file)])
