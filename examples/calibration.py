"""Trusting the probabilities: what the temperature does, in a reliability table.

Of the papers that a model gives "about 70%", about 70% should be right. The default model makes
sure of it with a temperature, fitted on predictions of labelled papers without their labels, and
with how common each topic seems to be: no validation set is needed.

    python examples/calibration.py
"""

import numpy as np

import nodegp
from nodegp import metrics

data = nodegp.load_dataset("cora")
test = data.splits["test"]


def show(model: nodegp.GraphGPClassifier) -> None:
    proba = model.predict_proba(data.graph, nodes=test)
    print(f"temperature {model.temperature_:.2f}")
    print(f"  accuracy          {metrics.accuracy(data.y[test], proba):.3f}")
    print(f"  log loss          {metrics.log_loss(data.y[test], proba):.3f}")
    error = metrics.expected_calibration_error(data.y[test], proba)
    print(f"  calibration error {error:.3f}")
    print("  probability   papers   said   right")
    curve = metrics.reliability_curve(data.y[test], proba, n_bins=5)
    for b in np.flatnonzero(curve.count):
        low, high = curve.edges[b], curve.edges[b + 1]
        said, right = curve.confidence[b], curve.accuracy[b]
        print(f"  {low:.1f} to {high:.1f}    {curve.count[b]:6d}    {said:3.0%}     {right:3.0%}")


print("As the likelihood gives them:")
show(nodegp.GraphGPClassifier(calibrate=False).fit(data.graph, data.labels("train")))
print("\nCalibrated, the default:")
show(nodegp.GraphGPClassifier().fit(data.graph, data.labels("train")))
