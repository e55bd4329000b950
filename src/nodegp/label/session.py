"""A labelling session: it asks, keeps what is answered, learns, and asks on.

Whatever an expert does is a command with an id of its own. It is in the journal before anything is
made of it, and a command that comes twice is done once. Nothing else changes a session, so that one
that was killed goes on where it was.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from nodegp.app.frontend import plain
from nodegp.label.commands import COMMANDS, Commands, Refused
from nodegp.label.events import State, fold
from nodegp.label.journal import Event, Journal
from nodegp.label.learning import Chosen, Knowledge, Learner
from nodegp.label.opening import Subject, check_classes
from nodegp.label.panels import learnt, panels
from nodegp.label.question import Evidence
from nodegp.label.thoughts import guess, thoughts

__all__ = ["Session"]

_KEPT = 6  # states whose model is kept, for undo and for answers worked out ahead
_HISTORY = 300  # answers that a page is told of with each reply; undo goes back further
_REPLIES = 50  # that are kept for commands that come again
_LIKELIEST = 2  # answers that are worked out ahead
_log = logging.getLogger(__name__)


class Session:
    """One expert, one graph, one journal.

    Parameters
    ----------
    subject : what is labelled, see :mod:`nodegp.label.opening`
    journal : the file for the answers
    strategy : the strategy of active learning, one of ``nodegp.active.strategies()``
    random_share : share of questions drawn at random, to estimate the accuracy
    suggestions : show the prediction with the question, except for a tenth of them. The expert's
        last choice in the session takes precedence
    confidence : the confidence of a "probably"
    """

    def __init__(
        self,
        subject: Subject,
        journal: str | Path,
        *,
        strategy: str = "hybrid",
        random_share: float = 0.1,
        suggestions: bool = False,
        confidence: float = 0.75,
        annotator: str = "expert",
        seed: int = 0,
    ):
        self.subject, self.suggestions, self.confidence = subject, suggestions, confidence
        self.evidence = Evidence(subject.graph, subject.ids, subject.shown, subject.numbers)
        self.learner = Learner(
            subject.graph,
            subject.prototype,
            subject.fitted,
            subject.kind,
            strategy,
            random_share,
            seed,
        )
        self._kept: OrderedDict[Any, Knowledge] = OrderedDict()
        self._replies: dict[str, dict[str, Any]] = {}
        self._turn = threading.RLock()  # whoever changes the session has it alone
        self._pending: list[tuple[str, str, Mapping[str, Any]]] = []  # notes of the program's own
        self.trouble = ""  # why the model is not up to date
        self.told: set[int] = set()  # nodes without an answer of which a prediction was shown
        self.seconds: dict[str, float] = {}  # what the last command took, by what
        self.journal = Journal(journal, subject.binding(), annotator, subject.start())
        # For all that takes long, by whoever serves the session: torch keeps threads for each one
        # that asks it, and those of a second would take the processors from the first's.
        self.worker = ThreadPoolExecutor(1, "label")
        try:
            self.worker.submit(self._begin).result()
        except BaseException:
            self.worker.shutdown(wait=False)
            self.journal.close()
            raise

    def _begin(self) -> None:
        """Stand where the journal ends."""
        events = self.journal.events
        begun = events[0].data
        for event in events:
            if event.kind == "mode":
                self.suggestions = event.data["suggestions"]
        check_classes(self.subject, events, self.journal.path)
        self.learner.kind = self.subject.kind = {"int": int, "str": str}[begun["kind"]]
        # Labels that came into the model by another way are there too.
        self._given = self.subject.given | {n: name for n, name, _ in begun["given"]}
        answered = {e.data["number"] for e in events if e.kind == "answer"}
        was_given = {n for n, *_ in begun["given"]}
        self._given = {n: v for n, v in self._given.items() if n in was_given or n not in answered}
        sure = {n: confidence for n, _, confidence in begun["given"] if confidence < 1}
        self._given_confidences = sure
        self._classes = begun["classes"]
        last = next((e for e in reversed(events) if e.kind in COMMANDS), None)
        is_noted = last is None or any(e.data.get("about") == last.seq for e in events[-3:])
        self.state = self._folded(events)
        if not self.state.labels:
            self._prepare()
        if last is not None and not is_noted:  # it was killed before it had learnt from the last
            self.state = self._folded(events[: last.seq - 1])
            self.knowledge, self._known = self._learnt(None), self.state.key
            self._follow(last)
            return
        self.knowledge, self._known = self._learnt(None), self.state.key
        self.question = self._next()

    def _prepare(self) -> None:
        try:
            self.learner.prepare(self.state)
        except Exception:  # an answer that needs it will show what is wrong
            _log.exception("preparing failed")

    def _folded(self, events: Iterable[Event]) -> State:
        return fold(self._classes, self._given, events, self._given_confidences)

    @property
    def is_read_only(self) -> bool:
        return self.journal.is_read_only

    # --- commands -------------------------------------------------------------------------------

    def do(self, id: str, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Do what an expert commands, once for each id, and say what came of it.

        Raises :class:`~nodegp.label.commands.Refused` for a command that makes no sense, and
        :class:`~nodegp.label.journal.JournalError` where it could not be kept: then it is not done.
        """
        with self._turn:
            if (event := self.journal.find(id)) is not None:
                return self._replies.get(id) or self._reply(event)
            if len(self._replies) > _REPLIES:
                self._replies.pop(next(iter(self._replies)))
            checked = Commands(self.state, self).checked(kind, data)
            started = time.perf_counter()
            *_, event = self.journal.add([*self._pending, (id, kind, checked)])
            self._pending = []
            self.seconds = {"commit": time.perf_counter() - started}
            self._follow(event)
            reply = self._replies[id] = self._reply(event)
            return reply

    def _follow(self, event: Event) -> None:
        """Take in an event that is in the journal."""
        before = self.knowledge
        self.state = self._folded(self.journal.events)
        notes: dict[str, Any] = {"about": event.seq}
        if self.state.key == self._known:
            self.trouble = ""
        else:  # also where learning failed the last time
            try:
                started = time.perf_counter()
                self.knowledge, self._known = self._learnt(before), self.state.key
                self.trouble = ""
                self.seconds["learn"] = time.perf_counter() - started
                notes |= learnt(self.state, before, self.knowledge)
            except Exception as error:  # the answer is kept whatever becomes of the model
                _log.exception("learning failed")
                self.trouble = f"the model could not learn from this: {error}"
        if event.kind == "mode":
            self.suggestions = event.data["suggestions"]
        self._last = event, before
        if event.kind not in ("flag", "note", "mode"):
            self.question = self._next()
        if not self.is_read_only:
            self._pending = [(os.urandom(8).hex(), "learned", notes)]

    def follow(self) -> bool:
        """Take in what another session has added to the journal, if this one may only read."""
        with self._turn:
            if not self.is_read_only or not self.journal.follow():
                return False
            self.state = self._folded(self.journal.events)
            self.knowledge, self._known = self._learnt(self.knowledge), self.state.key
            self.question = self._next()
            return True

    def note(self) -> None:
        """Keep what was learnt from the last command, when there is time. Else it is kept with the
        next one, and if that never comes, worked out again."""
        with self._turn:
            if self._pending:
                self.journal.add(self._pending)
                self._pending = []

    def _noted(self) -> list[Mapping[str, Any]]:
        """What was learnt from each command."""
        kept = [event.data for event in self.journal.events if event.kind == "learned"]
        return [*kept, *(data for _, _, data in self._pending)]

    def _next(self) -> Chosen | None:
        started = time.perf_counter()
        try:
            return self.learner.choose(self.state, self.knowledge)
        except Exception as error:  # such as a strategy that needs another model
            _log.exception("choosing failed")
            self.trouble = self.trouble or f"the strategy could not choose: {error}"
            by_degree = np.argsort(-self.subject.graph.degrees, kind="stable")
            taken = self.state.labels.keys() | self.state.marks.keys()
            left = next((int(n) for n in by_degree if n not in taken), None)
            return None if left is None else Chosen(left, "strategy", "degree", False)
        finally:
            self.seconds["choose"] = time.perf_counter() - started

    def _learnt(self, before: Knowledge | None) -> Knowledge:
        key = self.state.key
        if (known := self._kept.get(key)) is None:
            known = self._kept[key] = self.learner.learn(self.state, before)
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return known

    def anticipate(self) -> None:
        """Work out what an answer to the question takes whatever it will be."""
        question, knowledge = self.question, self.knowledge
        if question is not None and not self.is_read_only:
            self.learner.anticipate(knowledge, question.node)

    def ahead(self) -> None:
        """Work out what would be known after the likeliest answers to the question."""
        with self._turn:
            question, knowledge, events = self.question, self.knowledge, self.journal.events
        if question is None or knowledge.proba is None or self.is_read_only:
            return
        for column in (-knowledge.proba[question.node]).argsort()[:_LIKELIEST]:
            with self._turn:
                if len(self.journal.events) != len(events) or self.question is not question:
                    return  # the answer was faster
                data = {"number": question.node, "label": knowledge.classes[column]}
                answer = Event(len(events) + 1, "ahead", "", "", "answer", data)
                state = self._folded([*events, answer])
                if (key := state.key) not in self._kept:
                    self._kept[key] = self.learner.learn(state, knowledge)

    def _reply(self, event: Event) -> dict[str, Any]:
        """What came of an event, and how things stand."""
        return {"event": event.id, "outcome": self.outcome(event)} | self.standing()

    def outcome(self, event: Event) -> dict[str, Any]:
        """What an event did: for an answer also what the model had thought, and how many nodes it
        changed its mind about."""
        noted = reversed(self._noted())
        notes: Mapping[str, Any] = next((d for d in noted if d["about"] == event.seq), {})
        kept = {"number", "id", "label", "confidence", "why", "corrects", "name", "to", "on"}
        if event.kind != "later":  # it is asked about again: what the model thinks stays unsaid
            kept |= {"probability", "predicted", "predicted_probability"}
        outcome: dict[str, Any] = {"kind": event.kind}
        outcome |= {name: notes.get(name) for name in ("changed", "rest")}
        if event.kind in ("undo", "redo"):
            outcome["of"] = self.outcome(self.journal.events[event.data["of"] - 1])
        return outcome | {name: event.data[name] for name in kept if name in event.data}

    # --- what is shown --------------------------------------------------------------------------

    def standing(self) -> dict[str, Any]:
        """How things stand: the question, the classes, the panels."""
        state = self.state
        return plain(
            {
                "seq": len(self.journal.events),
                "journal": self.journal.name,
                "question": self._asked(),
                "classes": state.classes,
                "panels": panels(state, self.knowledge, self._noted()),
                "can_undo": _named(state.events),
                "can_redo": _named(state.undone),
                "suggestions": self.suggestions,
                "confidence": self.confidence,
                "strategy": self.learner.strategy,
                "read_only": self.is_read_only,
                "trouble": self.trouble,
                "seconds": self.seconds,
            }
        ) | {"history": [self._past(node) for node in state.history[-_HISTORY:]]}

    def _asked(self) -> dict[str, Any] | None:
        chosen = self.question
        if chosen is None:
            return None
        asked = self.look(chosen.node) | {"why": chosen.why, "strategy": chosen.strategy}
        if self.shows_suggestion(chosen.node):
            asked["suggestion"] = guess(self.knowledge, chosen.node)
            self.told.add(chosen.node)
        return asked

    def look(self, node: int) -> dict[str, Any]:
        """What people know of a node."""
        state = self.state
        mark = state.marks.get(node)
        said = None
        if mark is not None:
            said = {"kind": mark.kind, "label": mark.label, "confidence": mark.confidence}
        elif node in state.given:
            said = {"kind": "given", "label": state.given[node], "confidence": 1.0}
        own = {"said": said, "flagged": node in state.flags, "note": state.notes.get(node, "")}
        return self.evidence.of(node, state.labels) | own

    def _past(self, node: int) -> dict[str, Any]:
        mark = self.state.marks[node]
        return self.evidence.brief(node, self.state.labels) | {"kind": mark.kind}

    def shows_suggestion(self, node: int) -> bool:
        """Whether the expert sees what the model thinks of a node before an answer."""
        chosen = self.question
        is_blind = chosen is not None and chosen.node == node and chosen.blind
        return self.suggestions and not is_blind and self.knowledge.proba is not None

    def was_told(self, node: int) -> bool:
        """Whether the expert may know what the model thought of a node: it was suggested, or there
        was an answer before, be it undone since."""
        return node in self.told or any(
            node in event.data.get("told", ())
            if event.kind == "mode"
            else event.kind in ("answer", "unknown") and event.data["number"] == node
            for event in self.journal.events
        )

    def thoughts(self, node: int) -> dict[str, Any]:
        """What the model thinks of a node and which labels spoke for it.

        Of a node that was not answered only where suggestions are wished: a suggestion shifts the
        answers. Of the one answered last, it is what the model thought before it was told.
        """
        with self._turn:
            mark = self.state.marks.get(node)
            is_open = (mark is None or mark.kind == "later") and node not in self.state.given
            if is_open:
                if not self.shows_suggestion(node):
                    raise Refused("what the model thinks is shown once you have answered")
                self.told.add(node)
            event, before = getattr(self, "_last", (None, None))
            is_last = event is not None and event.data.get("number") == node
            knowledge = before if is_last and before is not None else self.knowledge
            if knowledge.model is None or knowledge.proba is None:
                return {"number": node, "probabilities": [], "labels": [], "before": is_last}
            said = None if mark is None else mark.label
            found = thoughts(self.subject, self.evidence, knowledge, node, said)
            return found | {"before": is_last}

    def close(self) -> None:
        """Let go of the journal; it may be done twice."""
        self.worker.shutdown()
        try:
            self.note()
        finally:
            self.journal.close()


def _named(events: list[Event]) -> str:
    """What undo or redo would do, in a word."""
    return events[-1].kind if events else ""
