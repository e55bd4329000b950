"""Cases of model files from strangers: damaged, with a checksum that is right all the same."""

from __future__ import annotations

import random

from fuzzing import content
from fuzzing.cases import Case
from fuzzing.world import FITS, World

_USES = ("predict", "predict", "query", "update", "info", "explain", "evaluate")


def make(worlds: list[World], rng: random.Random) -> Case:
    """A command on a model file in which one to three values are gone or others."""
    world, use = rng.choice(worlds), rng.choice(_USES)
    kind = rng.choice([*FITS, *FITS, *world.models])
    case = Case([use, "model.nodegp", *_arguments(world, use, rng, kind)], {})
    for name in ("newnodes", "newedges", "answers"):
        case.files[f"{name}.csv"] = world.sheets[name].written("csv")
    case.files |= {f"{n}.{'npy' if 'dense' in n else 'npz'}": m for n, m in world.matrices.items()}
    model = world.models[kind]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        damage = rng.choice([content.other_description, content.other_arrays])
        case.damages.append(f"{kind}: {damage.__name__}")
        try:
            model = content.sealed(damage(model, rng))
        except (KeyError, IndexError, TypeError, AttributeError):
            break  # damaged too much already to be damaged in this way
    case.files["model.nodegp"] = model
    return case


def _arguments(world: World, use: str, rng: random.Random, kind: str) -> list[str]:
    def maybe(share: float, *arguments: str) -> list[str]:
        return list(arguments) if rng.random() < share else []

    if use == "predict":
        more = maybe(0.5, "-o", "out.csv")
        if rng.random() < 0.5:
            more += [
                "--nodes",
                "newnodes.csv",
                "--id",
                "paper",
                *maybe(0.7, "--edges", "newedges.csv"),
            ]
            more += {
                "dense": ["--features-npy", "newdense.npy"],
                "sparse": ["--features-npz", "newsparse.npz"],
            }.get(kind, [])
        return more + maybe(0.2, "--json") + maybe(0.2, "--coverage", "0.8")
    if use == "query":
        strategy = rng.choice(["sopt", "vopt", "s2", "random", "entropy", "bald", "eer"])
        return ["-n", "3", *maybe(0.7, "--strategy", strategy), *maybe(0.3, "--json")]
    if use == "update":
        return ["--labels", "answers.csv", "-o", "out.nodegp", *maybe(0.3, "--json")]
    if use == "explain":
        ids = world.sheets["nodes"].columns[0]
        return [str(rng.choice([*ids, 3])), *maybe(0.3, "--json")]
    if use == "evaluate":
        return [*maybe(0.3, "--labels", "answers.csv"), *maybe(0.3, "--json")]
    return maybe(0.5, "--json")
