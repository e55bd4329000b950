/**
 * How it is going: labels, accuracy, the learning curve, advice, and what was answered.
 */
import { amount, el, hint, percent, svg } from "./dom.js";
import { badge, colourOf } from "./colours.js";
import { nodeButton } from "./question.js";

/** @import { Panels, Standing } from "./types.js" */

const SHOWN = 30; // answers in the list

/** @param {Standing} standing @param {(number: number) => void} look */
export function panelParts(standing, look) {
  const numbers = standing.panels;
  return [countsPanel(numbers, standing.classes), accuracyPanel(numbers), curvePanel(numbers),
    advicePanel(numbers), historyPanel(standing, look)];
}

/** @param {Panels} numbers @param {string[]} classes */
function countsPanel(numbers, classes) {
  const most = Math.max(...numbers.classes.map((one) => one.labels), 1);
  const rows = numbers.classes.map((one) => {
    const bar = el("i", { class: "bar", "data-colour": colourOf(one.name, classes) });
    bar.style.width = `${(100 * one.labels) / most}%`;
    return el("tr", {},
      el("th", { scope: "row" }, badge(one.name, classes)),
      el("td", { class: "bars", "aria-hidden": "true" }, bar),
      el("td", {}, one.labels.toLocaleString("en")),
      el("td", {}, one.predicted.toLocaleString("en")));
  });
  const rest = [
    numbers.unknown && `${numbers.unknown} cannot be told`,
    numbers.later && `${numbers.later} put off`,
    numbers.flagged && `${numbers.flagged} flagged`,
  ].filter(Boolean);
  const heads = ["labels", "predicted"].map((head) => el("th", { scope: "col" }, head));
  return el("section", {},
    el("h2", {}, amount(numbers.labels, "label")),
    el("table", { class: "counts" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "class"), el("td"), ...heads)),
      el("tbody", {}, ...rows)),
    rest.length ? hint(rest.join(", ")) : null);
}

/** @param {Panels} numbers */
function accuracyPanel(numbers) {
  const { estimate, leave_one_out: left, entropy, changed } = numbers;
  /** @param {string} name @param {string} bold @param {string} [more] */
  const fact = (name, bold, more) => [el("dt", {}, name), el("dd", {}, el("b", {}, bold), more)];
  const facts = [
    ...(estimate
      ? fact("estimated", percent(estimate.accuracy),
          ` (${percent(estimate.low)} to ${percent(estimate.high)}): right for ${estimate.right} of ` +
            `${amount(estimate.drawn, "node")} drawn at random, before it was told`)
      : [el("dt", {}, "estimated"), el("dd", {}, "no answers yet to questions drawn at random")]),
    ...(left === null
      ? [el("dt", {}, "leave-one-out"), el("dd", {}, "needs two labels")]
      : fact("leave-one-out", percent(left), " of the labels, each predicted without itself")),
    ...(entropy === null ? [] : fact("doubt left", entropy.toFixed(2), " nats a node")),
    ...(changed === null ? [] : fact("last answer", amount(changed, "node"), " changed")),
  ];
  return el("section", {}, el("h2", {}, "How often is the model right?"), el("dl", {}, ...facts));
}

/** @param {Panels} numbers */
function curvePanel(numbers) {
  const points = numbers.curve.filter((row) => row[1] !== null);
  const head = el("h2", {}, "Learning curve");
  if (points.length < 2) {
    return el("section", {}, head, hint("begins with the second answer"));
  }
  const [width, height, left, low] = [280, 120, 42, 18];
  const most = points[points.length - 1][0];
  const least = points[0][0];
  /** @param {number} labels */
  const x = (labels) => left + ((width - left - 6) * (labels - least)) / Math.max(most - least, 1);
  /** @param {number} share */
  const y = (share) => 6 + (height - low - 6) * (1 - share);
  const line = points.map((row) => `${x(row[0]).toFixed(1)},${y(row[1] ?? 0).toFixed(1)}`).join(" ");
  const now = points[points.length - 1][1] ?? 0;
  const { estimate } = numbers;
  const said = `Leave-one-out accuracy, ${percent(points[0][1] ?? 0)} with ${least} labels, ${percent(now)} with ${most}`;
  return el("section", {}, head,
    svg("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
      ...[0, 0.5, 1].flatMap((share) => [
        svg("line", { x1: left, x2: width - 6, y1: y(share), y2: y(share), class: "grid" }),
        svg("text", { x: left - 4, y: y(share) + 4, "text-anchor": "end" }, percent(share).replace(".0", "")),
      ]),
      svg("text", { x: x(least), y: height - 3 }, least),
      svg("text", { x: width - 6, y: height - 3, "text-anchor": "end" }, amount(most, "label")),
      svg("polyline", { points: line }),
      ...(estimate
        ? [
            svg("line", { class: "error", x1: x(most), x2: x(most), y1: y(estimate.low), y2: y(estimate.high) }),
            svg("circle", { cx: x(most), cy: y(estimate.accuracy), r: 3.5 }),
          ]
        : [])),
    hint("Line: leave-one-out. Dot: estimated, with its 95 % interval."));
}

/** @param {Panels} numbers */
function advicePanel(numbers) {
  const { advice } = numbers;
  return el("section", { class: advice?.stop ? "stop" : "" },
    el("h2", {}, advice?.stop ? "You may stop" : "Go on?"),
    el("p", {}, advice ? advice.text : "Advice comes when predictions have changed a few times."));
}

/** @param {Standing} standing @param {(number: number) => void} look */
function historyPanel(standing, look) {
  const last = standing.history.slice(-SHOWN).reverse();
  const more = standing.history.length - last.length;
  /** @type {Record<string, string>} */
  const kinds = { unknown: "cannot tell", later: "later" };
  return el("section", { class: "history" },
    el("h2", {}, "Your answers"),
    last.length ? null : hint("none yet"),
    el("ol", {}, ...last.map((one) =>
      el("li", {}, nodeButton(one, standing.classes, look),
        kinds[one.kind] ? el("small", {}, ` ${kinds[one.kind]}`) : null))),
    more > 0 ? hint(`and ${more.toLocaleString("en")} before`) : null);
}
