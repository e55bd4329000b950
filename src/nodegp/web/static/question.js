/**
 * The node that is asked about, or looked at: what people know of it.
 */
import { amount, el, hint, percent } from "./dom.js";
import { badge } from "./colours.js";

/** @import { Brief, Node as GraphNode, Place, Said } from "./types.js" */

const TITLE = 120; // characters that a heading has at most
const [LONG, LINES] = [1200, 16]; // of a text, above which it is folded

/** @type {Record<string, string>} */
const WHY = {
  strategy: "chosen because its label would help most",
  random: "drawn at random, to estimate how often the model is right",
  request: "you asked for it",
  later: "you put it off",
};

/**
 * @param {GraphNode} node
 * @param {string[]} classes
 * @param {{isQuestion: boolean, buttons: HTMLElement[]}} how
 * @returns {HTMLElement[]}
 */
export function questionParts(node, classes, how) {
  const [first] = node.texts;
  const hasTitle = first && first.text.length <= TITLE && !first.text.trim().includes("\n");
  const { said } = node;
  const isAgain = node.why === "later" && said?.kind === "later"; // it is said once
  return [
    el("p", { class: "about" },
      el("span", { class: "id" }, node.id),
      how.isQuestion && !isAgain ? el("span", { class: "why" }, WHY[node.why ?? ""] ?? "") : null,
      node.flagged ? el("span", { class: "flag" }, "⚑ flagged") : null,
      said && el("span", { class: "said" }, ...saidWords(said, classes))),
    el("h1", { dir: "auto" }, hasTitle ? first.text : node.id),
    ...node.texts.slice(hasTitle ? 1 : 0).map(textPart),
    el("dl", { class: "numbers" }, ...node.numbers.flatMap(numberParts)),
    ...(node.note ? [el("p", { class: "note" }, el("b", {}, "Note: "), node.note)] : []),
    ...(how.buttons.length ? [el("p", { class: "buttons" }, ...how.buttons)] : []),
  ];
}

/** @param {{name: string, text: string}} one */
function textPart({ name, text }) {
  const whole = el("p", { dir: "auto" }, text);
  const part = el("div", { class: "text" }, el("h2", {}, name), whole);
  if (text.length > LONG || text.split("\n").length > LINES) {
    const fold = () => {
      const isFolded = whole.classList.toggle("folded");
      more.textContent = isFolded ? `more: ${amount(text.length, "character")} in all` : "less";
    };
    const more = el("button", { type: "button", onclick: fold });
    fold();
    part.append(more);
  }
  return part;
}

/** @param {Said} said @param {string[]} classes */
function saidWords(said, classes) {
  if (said.kind === "unknown") return ["you said: cannot tell"];
  if (said.kind === "later") return ["you put it off"];
  const label = said.label ?? "";
  const sure = said.confidence < 1 ? ` (probably, ${percent(said.confidence)})` : "";
  return [said.kind === "given" ? "label: " : "you said: ", badge(label, classes), sure];
}

/** @param {Place} one */
function numberParts(one) {
  if (one.value === null) return [el("dt", {}, one.name), el("dd", {}, "not known")];
  // A year is no 1,990: small whole numbers are written as they are.
  const useGrouping = !Number.isInteger(one.value) || Math.abs(one.value) >= 10000;
  const value = one.value.toLocaleString("en", { maximumSignificantDigits: 6, useGrouping });
  const below = one.below ?? 0;
  const upto = one.upto ?? 0;
  const place = `more than ${percent(below)} of all nodes`;
  const meter = el("span", { class: "meter", title: `median ${one.median}`, "aria-hidden": "true" });
  const bar = el("i");
  bar.style.left = `${Math.min(100 * below, 97)}%`;
  bar.style.width = `${Math.max(100 * (upto - below), 3)}%`;
  meter.append(bar);
  return [el("dt", {}, one.name), el("dd", {}, el("b", {}, value), meter, el("small", {}, place))];
}

/**
 * Lists of what is around a node.
 * @param {GraphNode} node
 * @param {string[]} classes
 * @param {(number: number) => void} look
 */
export function aroundParts(node, classes, look) {
  const more = node.n_neighbours - node.neighbours.length;
  return [
    el("section", { class: "neighbours" },
      el("h2", {}, `Linked to ${amount(node.n_neighbours, "node")}`),
      hint(`${amount(node.n_labelled, "has", "have")} a label from people`),
      el("ul", {}, ...node.neighbours.map((one) => el("li", {}, nodeButton(one, classes, look)))),
      more > 0 ? hint(`and ${more.toLocaleString("en")} more`) : null),
    el("section", { class: "ways" },
      el("h2", {}, "Nearest with a label"),
      hint(node.ways.length ? `of ${amount(node.ways.length, "class", "classes")}`
        : "no labelled node can be reached from here"),
      el("ul", {}, ...node.ways.map((way) => wayPart(way, classes, look)))),
  ];
}

/**
 * @param {{label: string, nodes: Brief[]}} way
 * @param {string[]} classes
 * @param {(number: number) => void} look
 */
function wayPart(way, classes, look) {
  const steps = way.nodes.length - 1;
  const buttons = way.nodes.slice(1).flatMap((one, place) => [
    el("span", { class: "arrow", "aria-hidden": "true" }, place ? " → " : ""),
    nodeButton(one, classes, look),
  ]);
  return el("li", {}, badge(way.label, classes), ` ${amount(steps, "step")}: `, ...buttons);
}

/** @param {Brief} one @param {string[]} classes @param {(number: number) => void} look */
export function nodeButton(one, classes, look) {
  return el("button", { type: "button", class: "node", onclick: () => look(one.number), title: one.id },
    one.label === null ? null : badge(one.label, classes),
    el("span", { dir: "auto" }, one.title));
}
