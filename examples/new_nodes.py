"""New nodes: fit on the graph of today, predict on the graph of tomorrow, without a new fit.

The model is fitted while 500 papers and all their citations do not exist yet. It then answers
for them on the whole graph, where their neighbours are known.

    python examples/new_nodes.py
"""

import numpy as np

import nodegp

data = nodegp.load_dataset("cora")
later = np.sort(np.random.default_rng(0).choice(data.splits["test"], 500, replace=False))
today = np.setdiff1d(np.arange(data.graph.n_nodes), later)

known = data.graph.subgraph(today)
model = nodegp.GraphGPClassifier().fit(known, data.labels("train")[today])
print(f"fitted on    {known}")

print(f"predicted on {data.graph}")
proba = model.predict_proba(data.graph, nodes=later)
right = np.mean(model.classes_[proba.argmax(axis=1)] == data.y[later])
print(f"accuracy on {len(later)} new papers: {right:.3f}")

# For comparison: a model that had their words and citations from the start.
seen = nodegp.GraphGPClassifier().fit(data.graph, data.labels("train"))
right = np.mean(seen.predict(data.graph, nodes=later) == data.y[later])
print(f"had they been there at the fit: {right:.3f}")
