"""From files as people have them to a model that has learnt from answers, with the nodegp command.

python examples/newcomer.py

The files are made here, in a temporary folder, and none of it is tidy: semicolons, Latin-1, ids
that are numbers, a row number that says nothing, a label that is true or false, a line of text, and
for each channel the numbers of the games it has shown, in JSON by id.
"""

import csv
import json
import subprocess
import sys
import tempfile

import numpy as np

rng = np.random.default_rng(0)
N, LABELLED = 300, 40
partner = rng.random(N) < 0.5
ids = rng.permutation(90_000)[:N] + 10_000  # numbers, but no feature
words = {True: ["tournoi", "équipe", "finale"], False: ["détente", "après-midi", "soirée"]}


def nodegp(line):
    print(f"\n$ nodegp {line}", flush=True)
    subprocess.run([sys.executable, "-m", "nodegp", *line.split()], cwd=folder, check=True)


def write(name, head, rows, sep=";"):
    with open(f"{folder}/{name}", "w", newline="", encoding="latin-1") as file:
        csv.writer(file, delimiter=sep).writerows([head, *rows])


with tempfile.TemporaryDirectory() as folder:
    rows, games = [], {}
    for n, (id, kind) in enumerate(zip(ids.tolist(), partner.tolist(), strict=True)):
        about = " ".join(rng.choice(words[kind ^ (rng.random() < 0.3)]) for _ in range(3))
        rows.append([n, id, int(rng.lognormal(5 + kind)), about, str(kind) if n < LABELLED else ""])
        games[id] = sorted({int(game) for game in rng.normal(30 + 10 * kind, 12, 8) if game > 0})
    write("channels.csv", ["row", "channel", "views", "about", "partner"], rows)
    with open(f"{folder}/games.json", "w") as file:
        json.dump(games, file)
    pairs = rng.integers(0, N, (1500, 2))
    alike = (partner[pairs[:, 0]] == partner[pairs[:, 1]]) | (rng.random(1500) < 0.3)
    write("friends.csv", ["from", "to"], ids[pairs[alike & (pairs[:, 0] != pairs[:, 1])]].tolist())

    nodegp(
        "fit --nodes channels.csv --edges friends.csv --features-table games.json --id channel "
        "--label partner --text about -o partners.nodegp"
    )
    nodegp("evaluate partners.nodegp")
    nodegp("query partners.nodegp -n 5 -o ask.csv")
    with open(f"{folder}/ask.csv", newline="") as file:
        asked = [int(row["channel"]) for row in csv.DictReader(file)]
    answers = dict(zip(ids.tolist(), partner.tolist(), strict=True))  # the expert
    write("ask.csv", ["channel", "partner"], [[id, answers[id]] for id in asked], sep=",")
    nodegp("update partners.nodegp --labels ask.csv")
    nodegp("predict partners.nodegp -o predictions.csv")
