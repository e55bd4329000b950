/**
 * The neighbourhood as a drawing, and as a table that says the same. Places come from the server.
 */
import { el, hint, svg } from "./dom.js";
import { badge, colourOf, keyOf } from "./colours.js";
import { nodeButton } from "./question.js";

/** @import { Drawing } from "./types.js" */

const SIZE = 320;
const CROWD = 60; // nodes, of which those without a label are drawn smaller

/** @param {Drawing} drawing @param {string[]} classes @param {(number: number) => void} look */
export function drawingPart(drawing, classes, look) {
  const radius = SIZE / 2 - 18;
  /** @param {number} place */
  const at = (place) => {
    const node = drawing.nodes[place];
    return [SIZE / 2 + radius * node.x, SIZE / 2 + radius * node.y];
  };
  const rings = Math.max(...drawing.nodes.map((node) => node.ring), 0);
  const dots = drawing.nodes.map((node, place) => {
    const [x, y] = at(place);
    const { label, ring } = node;
    const key = label === null ? "" : keyOf(label, classes);
    const said = label === null ? "no label" : `label ${key} ${label}`;
    const where = ring === 0 ? "the node asked about" : `${ring} away`;
    const name = `${node.title}, ${said}, ${where}`;
    const r = ring === 0 ? 11 : drawing.nodes.length <= CROWD ? 8 : label === null ? 4 : 6;
    const colour = label === null ? "none" : colourOf(label, classes);
    return svg("g", {
      class: `dot ring${ring}`, tabindex: place === 0 ? 0 : -1, role: "button", "aria-label": name,
      transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, "data-place": place,
      onclick: () => look(node.number),
    }, svg("title", {}, name), svg("circle", { r, "data-colour": colour }),
    key ? svg("text", { dy: "0.35em" }, key) : null);
  });
  // What is drawn last lies above the others: what people said, and above all the node itself.
  /** @param {number} place */
  const height = (place) => (place === 0 ? 2 : drawing.nodes[place].label === null ? 0 : 1);
  const upwards = [...dots.keys()].reverse().sort((a, b) => height(a) - height(b));
  const picture = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", "aria-label": "Neighbourhood" },
    ...Array.from({ length: rings }, (_, ring) =>
      svg("circle", { class: "ring", cx: SIZE / 2, cy: SIZE / 2, r: (radius * (ring + 1)) / rings })),
    ...drawing.edges.map(([a, b]) => {
      const [x1, y1] = at(a);
      const [x2, y2] = at(b);
      return svg("line", { x1, y1, x2, y2 });
    }),
    ...upwards.map((place) => dots[place]));
  picture.addEventListener("keydown", (event) => walk(/** @type {KeyboardEvent} */ (event), picture));
  const cut = drawing.omitted ? `, ${drawing.omitted.toLocaleString("en")} more are not drawn` : "";
  return el("section", { class: "drawing" },
    el("h2", {}, "Neighbourhood"),
    picture,
    hint(`Rings are steps away${cut}. Filled: labelled by people. Arrow keys walk along the ` +
      "dots, Enter looks at one."),
    tablePart(drawing, classes, look));
}

/** Arrow keys go from dot to dot. @param {KeyboardEvent} event @param {SVGElement} picture */
function walk(event, picture) {
  const [dot, { length }] = [/** @type {SVGElement} */ (event.target), picture.querySelectorAll(".dot")];
  /** @type {Record<string, number>} */
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const place = Number(dot.dataset.place) + (steps[event.key] ?? 0);
  if (event.key === "Enter" || event.key === " ") dot.dispatchEvent(new MouseEvent("click"));
  else if (event.key in steps) {
    const next = picture.querySelector(`[data-place="${(place + length) % length}"]`);
    dot.setAttribute("tabindex", "-1");
    next?.setAttribute("tabindex", "0");
    /** @type {SVGElement | null} */ (next)?.focus();
  } else return;
  event.preventDefault();
}

/** @param {Drawing} drawing @param {string[]} classes @param {(number: number) => void} look */
function tablePart(drawing, classes, look) {
  /** @type {number[][]} */
  const linked = drawing.nodes.map(() => []);
  for (const [a, b] of drawing.edges) {
    linked[a].push(b);
    linked[b].push(a);
  }
  const details = el("details", {}, el("summary", {}, "The same as a table"));
  const fill = () => {
    if (details.querySelector("table")) return;
    const rows = drawing.nodes.map((node, place) =>
      el("tr", {},
        el("td", {}, nodeButton({ ...node, label: null }, classes, look)),
        el("td", {}, node.label === null ? "none" : badge(node.label, classes)),
        el("td", {}, node.ring),
        el("td", {}, linked[place].map((other) => drawing.nodes[other].id).join(", "))));
    const heads = ["node", "label", "steps away", "linked to"].map((head) => el("th", { scope: "col" }, head));
    details.append(
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Neighbourhood as a table" },
        el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))));
  };
  details.addEventListener("toggle", fill);
  return details;
}
