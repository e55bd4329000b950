/**
 * A colour and a key for each class. Colours can be told apart by the colour-blind (Okabe and Ito),
 * and nothing is said by colour alone.
 */
import { el } from "./dom.js";

const N_COLOURS = 8;

/** @param {string} name @param {string[]} classes */
export function colourOf(name, classes) {
  const place = classes.indexOf(name);
  return place < 0 ? "none" : String(place % N_COLOURS);
}

/** What a class is called in a drawing: its key, or nothing. @param {string} name @param {string[]} classes */
export function keyOf(name, classes) {
  const place = classes.indexOf(name);
  return place >= 0 && place < 9 ? String(place + 1) : "";
}

/** @param {string} name @param {string[]} classes */
export function badge(name, classes) {
  return el("span", { class: "badge", "data-colour": colourOf(name, classes), dir: "auto", title: name }, name);
}
