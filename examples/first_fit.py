"""A first fit: 140 labelled papers of the Cora citation graph, and what the model says of the rest.

python examples/first_fit.py
"""

import numpy as np

import nodegp

data = nodegp.load_dataset("cora")  # comes with the package
y = data.labels("train")  # one entry per paper, -1 where there is no label
print(f"{data.graph}, {np.sum(y >= 0)} of them labelled")

model = nodegp.GraphGPClassifier().fit(data.graph, y)
print(f"test accuracy {model.score(data.graph, data.labels('test')):.3f}")

# Without a test set: each labelled paper, predicted from the other labels.
loo = model.classes_[model.loo_proba_.argmax(axis=1)]
print(f"leave-one-out accuracy {np.mean(loo == y[model.labelled_]):.3f}, from the labels alone")

proba = model.predict_proba(data.graph)  # rows sum to one
entropy = -np.sum(proba * np.log(np.maximum(proba, 1e-12)), axis=1)
print("\nThe papers it is least sure of:")
for node in np.argsort(-entropy)[:3]:
    likeliest = np.argsort(-proba[node])[:3]
    topics = ", ".join(f"{data.class_names[c]} {proba[node, c]:.0%}" for c in likeliest)
    print(f"  paper {data.graph.ids[node]}: {topics}")
