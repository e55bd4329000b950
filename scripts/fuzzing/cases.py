"""Cases: a command with its files, and one to three things that are wrong with them."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing import content
from fuzzing.sheets import FORMATS, ODD_TEXTS, SHEET_DAMAGES, other_type
from fuzzing.world import FITS, World

_STRATEGIES = ("sopt", "vopt", "s2", "random", "degree", "entropy", "margin", "bald", "eer")
_USUAL_OUTPUTS = ("out.nodegp", "out.csv", "out.parquet", "out.tsv.gz", "out.html")
_ODD_OUTPUTS = (
    "nowhere/out.csv", "folder", "folder/", "out", "out.xlsx", "out.parquet.gz", ".csv", "",
    "nodes.csv/out.csv", "o" * 300 + ".csv", "out\n.csv", "öut.csv", "out\udce9.csv", "..", "-",
)  # fmt: skip
_ODD_PATHS = (
    "nowhere.csv", "folder", "folder.csv", "loop.csv", "gone.csv", "pipe.csv", "zero.csv",
    "other/../nodes.csv", "nodes.csv/x.csv", "n" * 300 + ".csv", "", "n\udce9.csv", "locked.csv",
    "folder.parquet", "folder.npy", "-", "*.csv",
)  # fmt: skip


@dataclass
class Case:
    """Arguments, the files by name, and what was done to them."""

    arguments: list[str]
    files: dict[str, bytes]
    damages: list[str] = field(default_factory=list)
    whole: bool = True  # nothing was changed in the model file

    def write(self, folder: Path) -> None:
        """The files, and a few things that are no files of a table."""
        for name, what in self.files.items():
            (folder / name).write_bytes(what)
        for name in ("folder", "folder.csv", "folder.parquet", "folder.npy"):
            (folder / name).mkdir()
        os.symlink("loop.csv", folder / "loop.csv")
        os.symlink("nothing.csv", folder / "gone.csv")
        os.symlink("/dev/zero", folder / "zero.csv")
        os.mkfifo(folder / "pipe.csv")
        (folder / "locked.csv").write_bytes(b"paper,topic\n")
        (folder / "locked.csv").chmod(0)


def make(worlds: list[World], rng: random.Random) -> Case:
    """A case drawn at random."""
    case = _Maker(rng.choice(worlds), rng).make()
    if rng.random() < 0.4:
        for name in _USUAL_OUTPUTS:
            case.files.setdefault(name, b"it was here before\n")
    return case


class _Maker:
    """A valid command first, then the damage."""

    def __init__(self, world: World, rng: random.Random):
        self.world, self.rng = world, rng
        self.case = Case([], {})
        self.kinds: dict[str, str] = {}  # the format of each table

    def make(self) -> Case:
        commands = ("fit", "fit", "fit", "predict", "predict", "evaluate", "query", "update",
                    "explain", "info")  # fmt: skip
        name = self.rng.choice(commands)
        sheet_damages, byte_damages, argument_damages = self._plan()
        self._sheets = {name: sheet.copy() for name, sheet in self.world.sheets.items()}
        self.case.arguments = [name, *getattr(self, f"_{name}")()]
        if self.rng.random() < 0.3:
            self.case.arguments.append("--json")
        elif self.rng.random() < 0.2 and name not in ("explain", "info"):
            self.case.arguments.append("--quiet")
        for _ in range(sheet_damages):
            self._damage_sheet()
        for table, kind in self.kinds.items():
            if kind == "parquet" and self.rng.random() < 0.4:
                self._note(f"{table}: other_type")
                other_type(self._sheets[table], self.rng)
            self.case.files[f"{table}.{kind}"] = self._sheets[table].written(kind)
        for _ in range(byte_damages):
            self._damage_bytes()
        for _ in range(argument_damages):
            self._damage_arguments()
        return self.case

    def _plan(self) -> tuple[int, int, int]:
        """How much of each kind of damage."""
        plans = ((1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1), (2, 0, 0), (1, 1, 0),
                 (0, 2, 0), (1, 0, 1), (1, 1, 1), (0, 0, 0))  # fmt: skip
        return self.rng.choice(plans)

    def _note(self, what: str) -> None:
        self.case.damages.append(what)

    # --- valid commands ---------------------------------------------------------------------------

    def _table(self, name: str) -> str:
        kind = self.kinds.setdefault(name, self.rng.choice(FORMATS))
        return f"{name}.{kind}"

    def _matrix(self, name: str, kind: str) -> str:
        self.case.files[f"{name}.{kind}"] = self.world.matrices[name]
        return f"{name}.{kind}"

    def _model(self) -> tuple[str, str]:
        kind = self.rng.choice([*FITS, *FITS, *self.world.models])
        self.case.files["model.nodegp"] = self.world.models[kind]
        return "model.nodegp", kind

    def _output(self, *names: str) -> list[str]:
        return ["-o", self.rng.choice(names)]

    def _maybe(self, share: float, *arguments: str) -> list[str]:
        return list(arguments) if self.rng.random() < share else []

    def _graph(self) -> list[str]:
        """Nodes and edges of a first fit or a cold start."""
        found = ["--nodes", self._table("nodes")]
        if self.rng.random() < 0.15:
            found += ["--knn", self.rng.choice(["1", "3", "10"])]
        else:
            found += ["--edges", self._table("edges")]
            found += self._maybe(0.4, "--weight", "w")
            found += self._maybe(0.3, "--source", "from", "--target", "to")
        found += self._maybe(0.8, "--id", "paper")
        found += self._maybe(0.2, "--text", "abstract")
        found += self._maybe(0.2, "--features", "x,y")
        return found + self._maybe(0.2, "--ignore-unknown")

    def _fit(self) -> list[str]:
        found = [*self._graph(), "--label", "topic", *self._output("out.nodegp")]
        if self.rng.random() < 0.2:
            found += ["--labels", self._table("answers")]
        if self.rng.random() < 0.15:
            found += ["--features-npy", self._matrix("dense", "npy")]
        if self.rng.random() < 0.15:
            found += ["--features-npz", self._matrix("sparse", "npz")]
        found += self._maybe(0.2, "--categorical", "kind")
        found += self._maybe(0.15, "--filter", "identity")
        return found + self._maybe(0.2, "--likelihood", "softmax")

    def _predict(self) -> list[str]:
        model, kind = self._model()
        found = [model]
        if self.rng.random() < 0.7:
            found += self._output("out.csv", "out.parquet", "out.tsv.gz")
        if self.rng.random() < 0.6:
            found += ["--nodes", self._table("newnodes"), *self._maybe(0.7, "--id", "paper")]
            found += self._maybe(0.7, "--edges", self._table("newedges"))
            found += ["--features-npy", self._matrix("newdense", "npy")] if kind == "dense" else []
            found += (
                ["--features-npz", self._matrix("newsparse", "npz")] if kind == "sparse" else []
            )
        return found + self._maybe(0.2, "--ignore-unknown")

    def _evaluate(self) -> list[str]:
        found = [self._model()[0]]
        if self.rng.random() < 0.6:
            found += ["--labels", self._table("answers")]
        else:
            found += self._maybe(0.3, "--folds", "2")
        found += self._maybe(0.15, "--compare", self.rng.choice(["lp", "logistic", "lp,logistic"]))
        return found + self._maybe(0.1, "--report", "out.html")

    def _query(self) -> list[str]:
        cold = self.rng.random() < 0.5
        found = self._graph() if cold else [self._model()[0]]
        found += ["-n", self.rng.choice(["1", "3", "40"])]
        found += self._maybe(0.7, "--strategy", self.rng.choice(_STRATEGIES))
        return found + (self._output("out.csv", "out.parquet") if self.rng.random() < 0.6 else [])

    def _update(self) -> list[str]:
        found = [self._model()[0], "--labels", self._table("answers")]
        return found + self._maybe(0.6, *self._output("out.nodegp"))

    def _explain(self) -> list[str]:
        ids = self.world.sheets["nodes"].columns[0]
        topics = self.world.sheets["nodes"].columns[1]
        found = [self._model()[0], str(self.rng.choice(ids))]
        return found + self._maybe(0.4, "--class", str(topics[0]))

    def _info(self) -> list[str]:
        return [self._model()[0]]

    # --- damage -----------------------------------------------------------------------------------

    def _damage_sheet(self) -> None:
        if not self.kinds:
            return self._damage_bytes()
        table = self.rng.choice(list(self.kinds))
        damage = self.rng.choice(SHEET_DAMAGES)
        self._note(f"{table}: {damage.__name__}")
        damage(self._sheets[table], self.rng)

    def _damage_bytes(self) -> None:
        if not self.case.files:
            return
        name = self.rng.choice(list(self.case.files))
        own: tuple[content.Damage, ...] = ()
        if name.endswith((".csv", ".tsv", ".txt")):
            own = content.HEAVY if self.rng.random() < 0.04 else content.TEXT
        for suffix, damages in (
            (".npy", content.NPY),
            (".npz", content.NPZ),
            (".nodegp", content.MODEL),
        ):
            own = damages if name.endswith(suffix) else own
        damage = self.rng.choice(own if own and self.rng.random() < 0.65 else content.ANY)
        old = self.case.files[name]
        try:
            new = damage(old, self.rng)
        except Exception:  # damaged too much already to be damaged in this way
            damage, new = content.flip, content.flip(old, self.rng)
        self.case.files[name] = new
        self._note(f"{name}: {damage.__name__}")
        self.case.whole &= not name.endswith(".nodegp") or new == old

    def _damage_arguments(self) -> None:
        arguments, rng = self.case.arguments, self.rng
        way = rng.randrange(6)
        out = [i for i, a in enumerate(arguments) if a in _USUAL_OUTPUTS]
        if way == 0 and out:
            arguments[out[0]] = rng.choice(_ODD_OUTPUTS)
        elif way <= 2:  # another path for a file
            at = rng.choice([i for i, a in enumerate(arguments) if a in self.case.files] or [0])
            if at:
                arguments[at] = rng.choice(
                    [rng.choice(_ODD_PATHS), rng.choice(list(self.case.files))]
                )
        elif way == 3 and len(arguments) > 2:  # a value is odd
            at = rng.randrange(1, len(arguments))
            if not arguments[at].startswith("-"):
                odd = [text for text in ODD_TEXTS if "\0" not in text and len(text) < 500]
                arguments[at] = rng.choice([*odd, "paper", "topic", "x", "kind", "1", "99", "w"])
        elif way == 4:  # something is missing
            del arguments[rng.randrange(len(arguments))]
        else:  # something is said twice, or for the first time
            more = rng.choice(
                [["--features", "x,kind"], ["--features", "abstract"], ["--text", "kind,abstract"],
                 ["--text", "x"], ["--categorical", "year,x"], ["--seed", "-1"], ["--knn", "3"],
                 ["--likelihood", "bernoulli"], ["--likelihood", "x"], ["--filter", "x"],
                 ["--recipe", "x"], ["--strategy", "x"], ["--folds", "99"], ["--compare", "x"],
                 ["-n", "0"], ["--label", "kind"], ["--id", "year"], ["--weight", "from"],
                 ["--seed", str(2**70)], ["--folds", "15"], ["--source", "to"], ["--nonsense"]]
            )  # fmt: skip
            arguments += more
        self._note("arguments")
