/**
 * The page: one question, one key, the next question. What is shown is what the server says;
 * nothing of the model is asked for before the answer is given.
 */
import { Refusal, command, get, listen, sendUnconfirmed, unconfirmed, useJournal } from "./api.js";
import { badge, colourOf } from "./colours.js";
import {
  button, changeClasses, findClass, showExport, showGuideline, showKeys, writeNote,
} from "./dialogs.js";
import { amount, byId, el, hint, percent, show } from "./dom.js";
import { drawingPart } from "./drawing.js";
import { ACTIONS, listenToKeys, nameOf, readLayout } from "./keys.js";
import { panelParts } from "./panels.js";
import { aroundParts, nodeButton, questionParts } from "./question.js";
import { deed } from "./words.js";

/** @import { Guess, Node as GraphNode, Outcome, Reply, Standing, Thoughts } from "./types.js" */

const KEYS = 9; // classes that have a key of their own
const PROBABLY = "nodegp-probably";

/** @type {Standing} */
let standing;
/** @type {GraphNode | null} what is looked at in place of the question */
let looked = null;
/** @type {Outcome | null} */
let outcome = null;
let isBusy = false;
let showsDrawing = localStorage.getItem("nodegp-drawing") !== "hidden";
let trouble = "";
/** @type {string[]} what was lost or waits, until one has seen it */
let notices = [];
let isConnected = true;

/** The node on the page. */
function shown() {
  return looked ?? standing.question;
}

// --- doing ---

/** Command something, and show what came of it. @param {string} kind @param {Record<string, any>} data */
async function act(kind, data = {}) {
  if (isBusy) return; // what one would answer is not on the page yet
  if (standing.read_only) {
    say("Another server has this journal open: here you can only read.");
    return;
  }
  isBusy = true;
  drawSaved();
  /** @type {Reply} */
  let reply;
  try {
    reply = await command(kind, data, nameOfNode(data.number), say);
  } catch (error) {
    isBusy = false;
    if (error instanceof Refusal && error.tries === 1 && !error.isKept) say(words(error));
    else notDone({ kind, data, node: nameOfNode(data.number) }, error);
    await refresh().catch(drawSaved);
    return;
  }
  stand(reply);
  if (["answer", "unknown", "later", "undo", "redo"].includes(kind)) outcome = reply.outcome;
  const stays = looked && (kind === "flag" || kind === "note");
  if (stays && looked) looked = await get(`/api/node/${looked.number}`).catch(() => null);
  else looked = null;
  isBusy = false;
  draw();
  if (!stays && kind !== "flag" && kind !== "note") focusQuestion();
}

/** @param {number | undefined} number */
function nameOfNode(number) {
  return [looked, standing.question].find((node) => node?.number === number)?.id ?? "";
}

/**
 * Tell of something that one takes for done, and that is not.
 * @param {{kind: string, data: Record<string, any>, node?: string}} one
 * @param {unknown} error
 */
function notDone(one, error) {
  const what = deed(one.kind, one.data, one.node);
  const { isKept = false, status = 0, tries = 1 } = error instanceof Refusal ? error : {};
  notices.push(
    isKept ? `The server has another journal open now. Kept until its own is open again: ${what}.`
      : status === 500 ? `Not saved: ${what}. Tried ${tries} times: ${words(error)} Do it again if it is missing.`
        : `Not saved: ${what}. Refused: ${words(error)}`);
  drawSaved();
}

/** An error as a sentence. @param {unknown} error */
function words(error) {
  return `${error instanceof Error ? error.message : error}`.trim().replace(/\.?$/, ".");
}

/** @param {string} label @param {boolean} probably */
function answer(label, probably) {
  const ticked = byId("answers").querySelector(".probably input:checked") !== null;
  withAsked((node) =>
    act("answer", { number: node.number, label, confidence: probably || ticked ? confidence() : 1 }));
}

/** Whether the node on the page may be answered: a neighbour that one looks at was not asked about. */
function isAsked() {
  return !looked || looked.said !== null;
}

/** @param {(node: GraphNode) => void} then */
function withAsked(then) {
  if (isAsked()) withNode(then);
  else say("You are looking at another node. Go back, or ask about this one next.");
}

function confidence() {
  const own = Number(localStorage.getItem(PROBABLY));
  return own > 0 && own < 1 ? own : standing.confidence;
}

/** @param {number} number */
async function look(number) {
  if (standing.question && number === standing.question.number) {
    back();
    return;
  }
  try {
    looked = await get(`/api/node/${number}`);
    draw();
    focusQuestion();
  } catch (error) {
    say(words(error));
  }
}

function back() {
  looked = null;
  draw();
  focusQuestion();
}

/** Through what was answered. @param {number} step */
function walk(step) {
  const { history } = standing;
  const current = looked;
  const at = current ? history.findIndex((one) => one.number === current.number) : history.length;
  const next = (at < 0 ? history.length : at) + step;
  if (next >= history.length) back();
  else if (next >= 0) look(history[next].number);
}

/** @type {Record<string, () => void>} */
const DO = {
  find: () => findClass(standing.classes, answer),
  unknown: () => withAsked((node) => act("unknown", { number: node.number })),
  later: () => withAsked((node) => act("later", { number: node.number })),
  flag: () => withNode((node) => act("flag", { number: node.number })),
  note: () => withNode((node) => writeNote(node.note, (text) => act("note", { number: node.number, text }))),
  undo: () => (standing.can_undo ? act("undo") : say("There is nothing to undo.")),
  redo: () => (standing.can_redo ? act("redo") : say("There is nothing to do again.")),
  previous: () => walk(-1),
  next: () => walk(1),
  graph: toggleDrawing,
  model: showThoughts,
  guideline: async () => {
    if (standing.guideline) showGuideline((await get("/api/guideline")).markdown);
    else say("There is no guideline: name a Markdown file with --guideline.");
  },
  keys: openKeys,
};

/** @param {(node: GraphNode) => void} then */
function withNode(then) {
  const node = shown();
  if (node) then(node);
}

function openKeys() {
  showKeys(
    { suggestions: standing.suggestions, confidence: confidence(), readOnly: standing.read_only },
    {
      suggest: (wished) => act("mode", { suggestions: wished }),
      probably: (share) => localStorage.setItem(PROBABLY, String(share)),
      redraw: draw,
    },
  );
}

function toggleDrawing() {
  showsDrawing = !showsDrawing;
  localStorage.setItem("nodegp-drawing", showsDrawing ? "shown" : "hidden");
  draw();
}

/** Of the node that one looks at, else of the one that was answered last. */
function showThoughts() {
  const one = looked ?? (outcome?.number === undefined ? shown() : outcome);
  if (one?.number !== undefined) showThoughtsOf(one.number, one.id ?? "");
}

/** @param {number} number @param {string} id */
async function showThoughtsOf(number, id) {
  try {
    const part = thoughtsPart(await get(`/api/thoughts/${number}`), id);
    const place = byId("outcome").querySelector(".thoughts");
    if (place) place.remove();
    if (!place || place.getAttribute("data-number") !== String(number)) byId("outcome").append(part);
  } catch (error) {
    say(words(error));
  }
}

/** @param {Thoughts} thoughts @param {string} id */
function thoughtsPart(thoughts, id) {
  const part = el("div", { class: "thoughts", "data-number": thoughts.number });
  if (!thoughts.probabilities.length) {
    part.append(el("p", {}, `The model had no label to learn from before ${id}.`));
    return part;
  }
  part.append(
    el("h3", {}, `What the model ${thoughts.before ? `thought of ${id} before you answered` : `thinks of ${id}`}`),
    guessList(thoughts.probabilities),
  );
  /** @param {string} head @param {boolean} isFor */
  const list = (head, isFor) => {
    const labels = thoughts.labels.filter((one) => (one.label === thoughts.class) === isFor);
    if (labels.length) part.append(el("h3", {}, head), el("ul", { class: "spoke" }, ...labels.map((one) =>
      el("li", {}, el("small", {}, one.share.toFixed(2)), nodeButton(one, standing.classes, look)))));
  };
  list(`Labels that spoke for ${thoughts.class ?? "it"}`, true);
  list("Labels that spoke for other classes", false);
  if (thoughts.labels.length) {
    part.append(hint("The number is what a label adds to the score of its own class."));
  }
  return part;
}

/** @param {Guess[]} guesses */
function guessList(guesses) {
  return el("ul", { class: "guesses" }, ...guesses.slice(0, 4).map((guess) => {
    const bar = el("i", { class: "bar", "data-colour": colourOf(guess.name, standing.classes) });
    bar.style.width = `${100 * guess.probability}%`;
    return el("li", {}, badge(guess.name, standing.classes), el("span", { class: "bars" }, bar), percent(guess.probability));
  }));
}

// --- showing ---

function draw() {
  const node = shown();
  byId("name").textContent = standing.name ?? "";
  byId("guideline").hidden = !standing.guideline;
  const { can_undo: undo, can_redo: redo, read_only: isReadOnly } = standing;
  for (const [name, can] of Object.entries({ undo, redo, classes: true })) {
    /** @type {HTMLButtonElement} */ (byId(name)).disabled = isReadOnly || !can;
  }
  for (const key of document.querySelectorAll("kbd[data-action]")) {
    key.textContent = nameOf(key.getAttribute("data-action") ?? "");
  }
  byId("question").classList.toggle("looked", looked !== null);
  if (node) {
    show("question", ...questionParts(node, standing.classes, { isQuestion: !looked, buttons: lookButtons() }));
    show("around", showsDrawing ? drawingPart(node.drawing, standing.classes, look) : hiddenDrawing(),
      ...aroundParts(node, standing.classes, look));
  } else {
    show("question", el("h1", {}, "Every node has an answer"), el("p", {}, "There is nobody left to ask about."));
    show("around");
  }
  show("answers", ...answerParts(node));
  show("outcome", ...outcomeParts());
  show("panels", ...panelParts(standing, look));
  drawSaved();
  requestAnimationFrame(() => document.body.setAttribute("data-painted", `${standing.seq}`));
}

function hiddenDrawing() {
  return el("p", { class: "hidden-drawing" }, button(`Show the drawing (${nameOf("graph")})`, toggleDrawing));
}

function lookButtons() {
  if (!looked) return [];
  const { number, said } = looked;
  const isOpen = !said || said.kind === "later";
  return [button("← Back to the question", back),
    isOpen ? button("Ask about this one next", () => act("request", { number }))
      : el("span", { class: "hint" }, "answer again to correct it")];
}

/** @param {GraphNode | null} node */
function answerParts(node) {
  if (!node || standing.read_only) return [];
  const classes = standing.classes.slice(0, isAsked() ? KEYS : 0);
  const buttons = classes.map((name, place) =>
    el("button", {
      type: "button", class: "class", "data-colour": colourOf(name, standing.classes),
      "aria-keyshortcuts": String(place + 1),
      onclick: once((event) => answer(name, event.shiftKey)),
    }, el("kbd", {}, place + 1), el("span", { dir: "auto" }, name)));
  const others = (isAsked() ? ["unknown", "later", "flag", "note"] : ["flag", "note"]).map((action) =>
    el("button", { type: "button", onclick: once(DO[action]), title: ACTIONS[action].means },
      NAMES[action], " ", el("kbd", {}, nameOf(action))));
  return [
    node.suggestion ? el("div", { class: "suggestion" }, el("b", {}, "The model suggests"), guessList(node.suggestion)) : null,
    el("div", { class: "classes" }, ...buttons,
      standing.classes.length > KEYS && classes.length
        ? el("button", { type: "button", class: "class", onclick: once(DO.find) }, el("kbd", {}, nameOf("find")),
            `${standing.classes.length - KEYS} more`)
        : null),
    el("div", { class: "others" }, ...others,
      classes.length ? el("label", { class: "probably" }, el("input", { type: "checkbox" }), " probably (⇧)") : null),
  ].filter((part) => part !== null);
}

/**
 * The second click of a double click would answer to the next question. Fingers make none.
 * @param {(event: PointerEvent) => void} then
 */
function once(then) {
  return (/** @type {PointerEvent} */ event) => {
    if (event.detail <= 1 || event.pointerType === "touch") then(event);
  };
}

/** @type {Record<string, string>} */
const NAMES = { unknown: "Cannot tell", later: "Later", flag: "Flag", note: "Note" };

function outcomeParts() {
  if (!outcome) return [];
  const { kind, label, probability, predicted, changed, number, id, corrects, of } = outcome;
  if (kind === "undo" || kind === "redo") {
    const what = of ? `: ${deed(of.kind, of, of.id)}` : "";
    return [el("p", {}, `${kind === "undo" ? "Undone" : "Done again"}${what}.`)];
  }
  if (kind !== "answer" || label === undefined) {
    const what = kind === "later" ? "It will come back." : "It will not be asked again.";
    return [el("p", {}, el("b", {}, id ?? ""), ": ", what)];
  }
  const parts = [el("b", {}, id ?? ""), ": ", badge(label, standing.classes), ". "];
  if (probability !== undefined) {
    parts.push(`The model gave this ${percent(probability)}`);
    if (predicted !== undefined && predicted !== label) {
      parts.push(`; it thought of ${predicted} (${percent(outcome.predicted_probability ?? 0)})`);
    }
  } else {
    parts.push(corrects === undefined ? "The model had nothing to go by yet" : "Corrected");
  }
  parts.push(changed === null ? "." : `; ${amount(changed, "node")} changed.`);
  return [el("p", {}, ...parts, " ", el("button", { type: "button", onclick: () => showThoughtsOf(number ?? 0, id ?? "") },
    "Why? ", el("kbd", {}, nameOf("model"))))];
}

function drawSaved() {
  const waiting = unconfirmed().length;
  const saved = byId("saved");
  saved.className = waiting || trouble ? "waiting" : "";
  saved.textContent = standing.read_only ? "read only"
    : waiting ? "saving…"
    : isConnected ? `${amount(standing.panels.answers, "answer")}, all saved` : "all saved; server away";
  drawTrouble();
  byId("answers").classList.toggle("busy", isBusy);
}

function drawTrouble() {
  const text = trouble || standing.trouble;
  const now = JSON.stringify([notices, text]);
  const place = byId("trouble");
  place.hidden = !text && !notices.length;
  if (place.dataset.now === now) return; // it would be read out again
  place.dataset.now = now;
  const seen = button("I have seen it", () => { notices = []; drawTrouble(); focusQuestion(); });
  show("trouble", text, ...notices.map((notice) => el("p", {}, notice)), notices.length > 0 && seen);
}

/** @type {number | undefined} */
let timer;

/** @param {string} text */
function say(text) {
  trouble = text;
  drawSaved();
  clearTimeout(timer);
  // What still waits stays on the page; a remark does not.
  if (text && !isBusy) timer = window.setTimeout(() => say(""), 6000);
}

function focusQuestion() {
  byId("question").focus({ preventScroll: true });
  if (window.scrollY > 0) window.scrollTo({ top: 0 });
}

// --- beginning ---

/** How things stand now; whether that is in another journal. @param {Standing} now */
function stand(now) {
  const isOther = standing !== undefined && now.journal !== undefined && now.journal !== standing.journal;
  if (isOther) looked = outcome = null; // they are of that one
  standing = isOther ? now : { ...standing, ...now };
  useJournal(standing.journal ?? "");
  return isOther;
}

async function refresh() {
  const isOther = stand(await get("/api/standing"));
  if (!isBusy) draw();
  if (isOther) await deliver();
}

/** Send what was not confirmed before. */
async function deliver() {
  if (isBusy || standing.read_only || !unconfirmed().length) return;
  isBusy = true;
  drawSaved();
  try {
    await sendUnconfirmed(say, notDone);
  } finally {
    isBusy = false;
  }
  await refresh();
}

async function begin() {
  stand(await get("/api/standing"));
  draw();
  if (!isWired) wire();
  await deliver();
  document.body.setAttribute("data-ready", "");
}

let isWired = false;

/** Hear what one does, and what others do. */
function wire() {
  isWired = true;
  listenToKeys((digit, probably) => {
    const label = standing.classes[digit - 1];
    if (label !== undefined) answer(label, probably);
  }, (action) => DO[action]());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && looked && !byId("dialog").hasAttribute("open")) back();
  });
  for (const name of ["undo", "redo", "guideline"]) byId(name).addEventListener("click", DO[name]);
  byId("classes").addEventListener("click", () => changeClasses(standing.classes, act));
  byId("export").addEventListener("click", showExport);
  byId("settings").addEventListener("click", openKeys);
  readLayout(draw);
  /** @param {boolean} isNew */
  const renew = (isNew) => {
    if (isNew && !isBusy) refresh().catch(() => undefined);
  };
  listen((news) => renew(news.seq !== standing.seq), (isThere) => {
    const isBack = isThere && !isConnected;
    isConnected = isThere;
    drawSaved();
    renew(isBack); // it may be another server, with another journal
  });
}

/** Begin, and where the server is not there yet, a little later. */
function start() {
  begin().catch((error) => {
    const isAway = !(error instanceof Refusal);
    byId("trouble").hidden = false;
    delete byId("trouble").dataset.now;
    byId("trouble").textContent = isAway ? "The server does not answer. It is tried again." : words(error);
    if (isAway && !document.body.hasAttribute("data-ready")) setTimeout(start, 1000);
  });
}

start();
