/**
 * Elements. Whatever a graph, a class or an expert says goes in as text and never as HTML.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element with attributes, listeners (`onclick`) and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [props]
 * @param {...Child} children
 */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/**
 * The same for a drawing.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, props = {}, ...children) {
  return fill(/** @type {SVGElement} */ (document.createElementNS(SVG, tag)), props, children);
}

/** @template {Element} E @param {E} element @param {Record<string, any>} props @param {Child[]} children */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...there(children));
  return element;
}

/** What there is of children, as nodes and text. @param {Child[]} children */
function there(children) {
  const some = children.filter((child) => child !== null && child !== undefined && child !== false);
  return some.map((child) => (child instanceof Node ? child : String(child)));
}

/** A remark in small print. @param {...Child} children */
export function hint(...children) {
  return el("p", { class: "hint" }, ...children);
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`there is no #${id}`);
  return element;
}

/** @param {string} id @param {...Child} children */
export function show(id, ...children) {
  byId(id).replaceChildren(...there(children));
}

/** @param {number} share */
export function percent(share) {
  const value = 100 * share;
  const isNearEnd = (value > 0 && value < 1) || (value > 99 && value < 100);
  return `${isNearEnd ? value.toFixed(1) : Math.round(value)} %`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export function amount(count, one, many) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : (many ?? one + "s")}`;
}
