"""How long the labelling page takes, in a real browser: from the key to the next question painted.

    python benchmarks/label.py            # Cora, and a synthetic text graph of 20,000 nodes
    python benchmarks/label.py --answers 50 --graphs cora

The expert answers at once and never thinks, so that no answer is worked out ahead. Where the page
is faster than 70 ms, the expert waits until the same key is not taken for a bounce of the one
before; what the next label takes whatever it is may be worked out by then, some milliseconds. Times
of the model's own work are of the same run. Needs chromium and Playwright.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright
from predict import text_graph

import nodegp
from nodegp.active import ActiveLearner, Hybrid
from nodegp.label.opening import Subject
from nodegp.label.session import Session
from nodegp.web.serving import PageServer, listening_socket

# 95th percentiles, in milliseconds.
LIMITS = {"cora": 200, "synthetic": 700, "commit": 20, "neighbourhood": 100, "first paint": 1500}
BOUNCE = 0.08  # seconds after which the same key is another stroke, and a little
STATIC = Path(nodegp.__file__).parent / "web" / "static"
# The time of a key, and that of the first thing after the frame with the new page was painted.
WATCH = """
window.times = [];
const after = new MessageChannel();
after.port1.onmessage = () => {
  if (window.pressed !== undefined) window.times.push(performance.now() - window.pressed);
  window.pressed = undefined;
  if (window.painted) window.painted();
};
addEventListener("keydown", () => { window.pressed = performance.now(); }, true);
addEventListener("DOMContentLoaded", () => {
  new MutationObserver(() => after.port2.postMessage(0))
    .observe(document.body, {attributes: true, attributeFilter: ["data-painted"]});
});
"""
# Waits for that without looking again and again, which would take time from the page.
PAINTED = """
n => window.times.length > n || new Promise((done) => { window.painted = () => done(true); })
"""
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync"),
]


def graphs(name):
    """A graph and the classes of its nodes."""
    if name == "cora":
        data = nodegp.load_dataset("cora")
        nodes = data.graph.largest_component()
        return data.graph.subgraph(nodes), data.y[nodes]
    data = text_graph()
    return data.graph, data.y


def new_session(graph, y, folder):
    classes = [str(c) for c in range(y.max() + 1)]
    model = nodegp.GraphGPClassifier(random_state=0)
    subject = Subject(graph, np.arange(graph.n_nodes), classes, model, int)
    session = Session(subject, Path(folder) / "labels.sqlite", random_share=0.0)
    session.worker.submit(session.do, "the first is given", "request", {"number": 0}).result()
    return session


def through_the_page(browser, session, y, n_answers):
    """Answer truly, as fast as the page lets one; times in milliseconds, and the learning curve."""
    times = {
        "key to question": [],
        "commit": [],
        "learn": [],
        "choose": [],
        "neighbourhood": [],
        "CPU": [],
    }
    curve, pressed = [], {}
    with listening_socket(0) as place:
        server = PageServer(session, place)
        thread = threading.Thread(target=server.run)
        thread.start()
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.add_init_script(WATCH)
        page.goto(server.link)
        page.wait_for_selector("body[data-ready]")
        # In milliseconds since the navigation; the model was ready before.
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        for count in range(n_answers):
            node = session.question.node
            key = f"Digit{y[node] + 1}"
            time.sleep(max(0.0, pressed.get(key, 0.0) + BOUNCE - time.perf_counter()))
            pressed[key], busy = time.perf_counter(), time.process_time()
            page.keyboard.press(key)
            page.evaluate(PAINTED, count)
            times["CPU"].append(1000 * (time.process_time() - busy))
            for name in ("commit", "learn", "choose"):
                times[name].append(1000 * session.seconds[name])
            started = time.perf_counter()
            session.look(session.question.node)
            times["neighbourhood"].append(1000 * (time.perf_counter() - started))
            curve.append((node, accuracy(session.knowledge.proba, session.state.labels, y)))
        times["key to question"] = page.evaluate("window.times")
        context.close()
        server.should_exit = True
        thread.join()
    return times, curve, paint


def accuracy(proba, labelled, y):
    rest = np.ones(len(y), dtype=bool)
    rest[list(labelled)] = False
    return float((proba.argmax(axis=1) == y)[rest].mean())


def through_the_library(graph, y, n_labels):
    """The same without a page."""
    learner = ActiveLearner(
        nodegp.GraphGPClassifier(random_state=0),
        graph,
        Hybrid(),
        oracle=y,
        initial=[0],
        classes=range(y.max() + 1),
    )
    return [
        (int(s.nodes[0]), accuracy(s.model.predict_proba(), np.flatnonzero(s.labelled), y))
        for s in learner.steps(n_labels)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="*", default=["cora", "synthetic"])
    parser.add_argument("--answers", type=int, default=200)
    chosen = parser.parse_args()
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("no chromium here: nothing was measured")
    is_well, cora = True, None

    def tell(what, value, limit, unit="ms"):
        nonlocal is_well
        verdict = "" if limit is None else f"   limit {limit}: {'ok' if value <= limit else 'NO'}"
        is_well &= limit is None or value <= limit
        print(f"  {what:<32}{value:9.1f} {unit}{verdict}", flush=True)

    print("the page")
    size = sum(file.stat().st_size for file in STATIC.iterdir()) / 1000
    tell("script and style", size, 80, "kB")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        for name in chosen.graphs:
            graph, y = graphs(name)
            print(f"{name}: {graph.n_nodes:,} nodes, {graph.n_edges:,} edges")
            with tempfile.TemporaryDirectory() as folder:
                session = new_session(graph, y, folder)
                times, curve, paint = through_the_page(browser, session, y, chosen.answers)
            tell("first paint", paint, LIMITS["first paint"])
            for what, values in times.items():
                limit = LIMITS[name] if what == "key to question" else LIMITS.get(what)
                tell(f"{what}, median", np.median(values), None)
                tell(f"{what}, 95th percentile", np.percentile(values, 95), limit)
            if name == "cora":
                cora = graph, y, curve[:50]
        browser.close()
    if cora is not None:  # at last: a second thread that asks torch would slow the page's down
        graph, y, curve = cora
        is_same = through_the_library(graph, y, len(curve)) == curve
        is_well &= is_same
        print(f"Cora's learning curve to {len(curve)} labels is the library's: {is_same}")
    sys.exit(not is_well)


if __name__ == "__main__":
    main()
