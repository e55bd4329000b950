"""A plain table and no graph: the classifier in scikit-learn's pipelines and searches.

The model links each row to the rows most like it and then works as on any graph. Rows without a
label help too: they show which rows belong together. Here 100 of 1,797 digits have one.

    python examples/scikit_learn.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler

import nodegp

X, y = load_digits(return_X_y=True)
labelled, rest = train_test_split(np.arange(len(y)), train_size=100, stratify=y, random_state=0)
to_table = FunctionTransformer(nodegp.Table, kw_args={"n_neighbors": 5})
pipeline = make_pipeline(MaxAbsScaler(), to_table, nodegp.GraphGPClassifier())

scores = cross_val_score(pipeline, X[labelled], y[labelled], cv=5)
print(f"cross-validation on the labelled rows: accuracy {scores.mean():.3f}")

logistic = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1000))
logistic.fit(X[labelled], y[labelled])
print(f"logistic regression, other rows:       accuracy {logistic.score(X[rest], y[rest]):.3f}")
pipeline.fit(X[labelled], y[labelled])
print(f"graph GP, other rows:                  accuracy {pipeline.score(X[rest], y[rest]):.3f}")

partly = np.full(len(y), -1)  # -1: no label
partly[labelled] = y[labelled]
pipeline.fit(X, partly)
print(f"graph GP, fitted with the other rows:  accuracy {pipeline.score(X[rest], y[rest]):.3f}")

# A search knows the parameters of every step by name.
choices = [{"n_neighbors": k} for k in (3, 5, 10)]
search = GridSearchCV(pipeline, {"functiontransformer__kw_args": choices}, cv=3)
search.fit(X[labelled], y[labelled])
print(f"a search over its settings chose {search.best_params_}")
