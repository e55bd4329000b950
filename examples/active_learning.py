"""A human in the loop: the model shows handwritten digits and asks you what they are.

Digits are linked to those that look alike. Each question is about the node whose label tells most
about the others (SOPT), so a few dozen answers label all 1,797 images.

    python examples/active_learning.py           you answer; Enter if you cannot tell
    python examples/active_learning.py --auto    the known labels answer
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

import nodegp
from nodegp.active import SOPT, ActiveLearner

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--auto", action="store_true", help="answer from the known labels")
parser.add_argument("--questions", type=int, default=40)
options = parser.parse_args()

images, truth = load_digits(return_X_y=True)
graph = nodegp.Graph(kneighbors_graph(images, 8), images)


def ask(node: int) -> int | None:
    """Show one image and read the answer; None if there is none."""
    if options.auto:
        return int(truth[node])
    shades = np.array(list(" .:-=+*#@"))[(images[node].reshape(8, 8) / 2).astype(int)]
    print("\n" + "\n".join("".join(pair for s in row for pair in (s, s)) for row in shades))
    while (answer := input("Which digit is this (0-9, Enter to skip)? ").strip()) != "":
        if answer.isdigit() and int(answer) < 10:
            return int(answer)
    return None


model = nodegp.GraphGPClassifier()
learner = ActiveLearner(model, graph, SOPT(), ask, classes=range(10), batch_size=5)
for step in learner.steps(options.questions):
    sure = step.model.predict_proba(graph).max(axis=1)
    right = np.mean(step.model.predict(graph) == truth)
    print(f"{step.n_labels:3d} labels: mean confidence {sure.mean():.2f}, accuracy {right:.3f}")
