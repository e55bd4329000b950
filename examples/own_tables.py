"""Your own tables: two CSV files in, predictions and questions out, with the nodegp command.

python examples/own_tables.py

The files are made here, in a temporary folder: accounts with a few numbers, a country and a note,
and transfers between them. Your own will do as well; `nodegp fit --help` lists the formats.
"""

import csv
import subprocess
import sys
import tempfile

import numpy as np

rng = np.random.default_rng(0)
is_shop = rng.random(300) < 0.5
words = {True: ["invoice", "sale", "refund"], False: ["rent", "salary", "gift"]}


def write(name, head, rows):
    with open(f"{folder}/{name}", "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def nodegp(line):
    print(f"\n$ nodegp {line}", flush=True)
    subprocess.run([sys.executable, "-m", "nodegp", *line.split()], cwd=folder, check=True)


with tempfile.TemporaryDirectory() as folder:
    accounts = []
    for n, shop in enumerate(is_shop):
        kind = ("shop" if shop else "person") if n < 40 else ""  # 40 labels, the rest empty
        amount = rng.lognormal(2 + shop, 1)
        country = rng.choice(["DE", "FR", "PT"])
        note = " ".join(rng.choice(words[bool(shop ^ (rng.random() < 0.3))]) for _ in range(3))
        accounts.append([f"acc-{n}", kind, f"{amount:.2f}", country, note])
    write("accounts.csv", ["account", "kind", "amount", "country", "note"], accounts)
    # Three in four transfers stay among accounts of one kind.
    pairs = rng.integers(0, 300, (2000, 2))
    kept = pairs[(is_shop[pairs[:, 0]] == is_shop[pairs[:, 1]]) | (rng.random(2000) < 0.33)]
    write("transfers.csv", ["from", "to"], [[f"acc-{a}", f"acc-{b}"] for a, b in kept])

    nodegp(
        "fit --nodes accounts.csv --edges transfers.csv --id account --label kind "
        "--features amount,country --text note -o kinds.nodegp"
    )
    nodegp("predict kinds.nodegp -o kinds.csv")
    with open(f"{folder}/kinds.csv", newline="") as file:
        predicted = np.array([row["label"] == "shop" for row in csv.DictReader(file)])
    print(f"right for {np.mean((predicted == is_shop)[40:]):.1%} of the unlabelled accounts")
    nodegp("query kinds.nodegp -n 3 -o ask.csv")
    nodegp("explain kinds.nodegp acc-25 -n 3")
