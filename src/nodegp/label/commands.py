"""The commands of an expert: whether one makes sense as things stand, and what the journal keeps of
it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodegp.label.events import UNDOABLE, State

if TYPE_CHECKING:
    from nodegp.label.session import Session

__all__ = ["COMMANDS", "Commands", "Refused"]

# "mode" is how the expert wishes to be asked: with suggestions or without.
COMMANDS = UNDOABLE | {"undo", "redo", "mode"}

_LONGEST_NAME = 200
_LONGEST_NOTE = 20_000
_MOST_CLASSES = 1_000


class Refused(ValueError):
    """A command that cannot be done as things stand."""


class Commands:
    """What may be commanded in a state."""

    def __init__(self, state: State, session: Session):
        self._state, self._session = state, session

    def checked(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """What the journal is to keep of a command; raises :class:`Refused`."""
        if kind not in COMMANDS:
            raise Refused(f"there is no command {kind!r}")
        return getattr(self, "_" + kind.replace("-", "_"))(data)

    # --- of a node ------------------------------------------------------------------------------

    def _answer(self, data: Mapping[str, Any]) -> dict[str, Any]:
        label, confidence = data.get("label"), data.get("confidence", 1.0)
        if label not in self._state.classes:
            raise Refused(f"there is no class {label!r}")
        if isinstance(confidence, bool) or not isinstance(confidence, int | float):
            raise Refused("a confidence is a number")
        if not 0 < confidence <= 1:
            raise Refused(f"a confidence lies above 0 and is at most 1, got {confidence:g}")
        return self._about(data) | {"label": label, "confidence": float(confidence)}

    def _unknown(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return self._about(data)

    _later = _unknown

    def _about(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The node of an answer, how it came to be asked about, and what the model thought: kept
        with the answer, for whoever asks later how far it can be trusted."""
        session = self._session
        node = self._node(data)
        mark, chosen = self._state.marks.get(node), session.question
        is_correction = node in self._state.given or (mark is not None and mark.kind != "later")
        why, strategy = "choice", ""
        if is_correction:
            why = "correction"
        elif chosen is not None and chosen.node == node:
            why, strategy = chosen.why, chosen.strategy
        if is_correction and mark is not None and mark.event.data.get("why") == "random":
            # It was drawn at random and still is; what the model thought is as it was then, and
            # whoever agrees with it once they have heard it does not count for it.
            kept = ("why", "predicted", "predicted_probability")
            agreed = mark.agreed and data.get("label") == mark.label
            return self._named(node) | {
                **{name: mark.event.data[name] for name in kept if name in mark.event.data},
                "agreed": agreed,
                "suggestion": True,
                "corrects": mark.event.seq,
            }
        about: dict[str, Any] = self._named(node) | {"why": why, "strategy": strategy}
        was_told = is_correction or session.was_told(node)
        about["suggestion"] = was_told or session.shows_suggestion(node)
        if is_correction:
            about["corrects"] = 0 if mark is None else mark.event.seq  # 0: a label from before
        knowledge = session.knowledge
        if knowledge.proba is not None and not is_correction:
            row = knowledge.proba[node]
            about["predicted"] = knowledge.classes[int(row.argmax())]
            about["predicted_probability"] = round(float(row.max()), 6)
            if data.get("label") is not None:
                about["agreed"] = data["label"] == about["predicted"]
            if data.get("label") in knowledge.classes:
                given = row[knowledge.classes.index(data["label"])]
                about["probability"] = round(float(given), 6)
        return about

    def _flag(self, data: Mapping[str, Any]) -> dict[str, Any]:
        node = self._node(data)
        return self._named(node) | {"on": node not in self._state.flags}

    def _note(self, data: Mapping[str, Any]) -> dict[str, Any]:
        text = data.get("text")
        if not isinstance(text, str) or len(text) > _LONGEST_NOTE:
            raise Refused(f"a note is text of at most {_LONGEST_NOTE:,} characters")
        return self._named(self._node(data)) | {"text": text.strip()}

    def _request(self, data: Mapping[str, Any]) -> dict[str, Any]:
        node = self._node(data)
        mark = self._state.marks.get(node)
        if node in self._state.labels or (mark is not None and mark.kind == "unknown"):
            raise Refused("this node has an answer already; go to it in the history to correct it")
        return self._named(node)

    def _node(self, data: Mapping[str, Any]) -> int:
        node = data.get("number")
        if isinstance(node, bool) or not isinstance(node, int):
            raise Refused("say which node, by its number")
        if not 0 <= node < self._session.subject.graph.n_nodes:
            raise Refused(f"there is no node number {node}")
        return node

    def _named(self, node: int) -> dict[str, Any]:
        return {"number": node, "id": str(self._session.subject.ids[node])}

    # --- of classes -----------------------------------------------------------------------------

    def _class_added(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if len(self._state.classes) >= _MOST_CLASSES:
            raise Refused(f"there are {_MOST_CLASSES:,} classes already")
        return {"name": self._new_name(data.get("name"))}

    def _class_renamed(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": self._known(data.get("name")), "to": self._new_name(data.get("to"))}

    def _class_merged(self, data: Mapping[str, Any]) -> dict[str, Any]:
        name, to = self._known(data.get("name")), self._known(data.get("to"))
        if name == to:
            raise Refused("a class cannot be merged into itself")
        return {"name": name, "to": to}

    def _known(self, name: Any) -> str:
        if not isinstance(name, str) or name not in self._state.classes:
            raise Refused(f"there is no class {name!r}")
        return name

    def _new_name(self, name: Any) -> str:
        name = name.strip() if isinstance(name, str) else ""
        if not name or len(name) > _LONGEST_NAME:
            raise Refused(f"a class has a name of 1 to {_LONGEST_NAME} characters")
        if name in self._state.classes:
            raise Refused(f"there is a class {name!r} already; merge them instead")
        if self._session.subject.kind is int and not _is_whole(name):
            raise Refused(f"the classes of this model are whole numbers, and {name!r} is none")
        return name

    def _mode(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(data.get("suggestions"), bool):
            raise Refused("suggestions are wished or not: true or false")
        # Of these nodes the expert knows what the model thinks, whatever is wished from now on.
        return {"suggestions": data["suggestions"], "told": sorted(self._session.told)}

    # --- of events ------------------------------------------------------------------------------

    def _undo(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if not self._state.events:
            raise Refused("there is nothing to undo")
        return {"of": self._state.events[-1].seq}

    def _redo(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if not self._state.undone:
            raise Refused("there is nothing to do again")
        return {"of": self._state.undone[-1].seq}


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal() and str(int(name)) == name
