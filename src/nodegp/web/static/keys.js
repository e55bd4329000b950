/**
 * Keys, by where they are on the keyboard and not by what is printed on them; each can be changed.
 * None works while one writes, and one stroke is one stroke, however the key bounces.
 */

const KEPT = "nodegp-keys";
const BOUNCE = 70; // milliseconds within which the same key is the same stroke

/** @type {Record<string, {code: string, means: string}>} */
export const ACTIONS = {
  find: { code: "Slash", means: "find a class by typing" },
  unknown: { code: "KeyU", means: "cannot tell: it is not asked again" },
  later: { code: "KeyS", means: "later: it comes back" },
  flag: { code: "KeyF", means: "flag this node, or take the flag away" },
  note: { code: "KeyN", means: "write a note on this node" },
  undo: { code: "KeyZ", means: "undo, without limit" },
  redo: { code: "KeyY", means: "do again what was undone" },
  previous: { code: "ArrowLeft", means: "back through what you answered, to correct it" },
  next: { code: "ArrowRight", means: "forward again, to the question" },
  graph: { code: "KeyG", means: "show or hide the drawing" },
  model: { code: "KeyM", means: "what the model thinks, once you have answered" },
  guideline: { code: "KeyH", means: "the guideline" },
  keys: { code: "Slash+Shift", means: "these keys" },
};

/** @type {Map<string, string>} what is printed on a key, where the browser tells */
let printed = new Map();

/** Ask the browser what is printed on the keys. @param {() => void} then */
export async function readLayout(then) {
  const keyboard = /** @type {any} */ (navigator).keyboard;
  if (!keyboard?.getLayoutMap) return;
  try {
    printed = new Map(await keyboard.getLayoutMap());
    then();
  } catch {
    // names of an American keyboard are shown
  }
}

/** @returns {Record<string, string>} */
function changed() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  } catch {
    return {};
  }
}

/** The stroke of an action. @param {string} action */
export function codeOf(action) {
  return changed()[action] ?? ACTIONS[action]?.code ?? "";
}

/** Give an action another key. @param {string} action @param {string} code */
export function remap(action, code) {
  localStorage.setItem(KEPT, JSON.stringify({ ...changed(), [action]: code }));
}

/** Who else has a stroke. @param {string} action @param {string} code */
export function takenBy(action, code) {
  if (/^(Digit|Numpad)[1-9]/.test(code)) return "classes";
  return Object.keys(ACTIONS).find((other) => other !== action && codeOf(other) === code) ?? "";
}

export function resetKeys() {
  localStorage.removeItem(KEPT);
}

/** What is printed on the key of an action. @param {string} action */
export function nameOf(action) {
  return nameOfCode(codeOf(action));
}

/** @param {string} stroke */
export function nameOfCode(stroke) {
  const [code, shift] = stroke.split("+");
  if (stroke === "Slash+Shift" && (printed.get("Slash") ?? "/") === "/") return "?";
  /** @type {Record<string, string>} */
  const special = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Slash: "/" };
  const name = printed.get(code) ?? special[code] ?? code.replace(/^(Key|Digit|Numpad)/, "");
  return (shift ? "⇧ " : "") + name.toLowerCase();
}

/** @param {KeyboardEvent} event */
export function strokeOf(event) {
  return event.code + (event.shiftKey ? "+Shift" : "");
}

// Inputs in which nothing is written.
const CLICKED = ["checkbox", "radio", "button", "submit", "reset"];

/** @param {EventTarget | null} target */
function isWriting(target) {
  if (!(target instanceof Element)) return false;
  const input = target.closest("input");
  if (input && !CLICKED.includes(input.type)) return true;
  return target.closest("textarea, select, [contenteditable], dialog[open]") !== null;
}

/** Whether a key is what one clicks with here. @param {KeyboardEvent} event */
function isClick(event) {
  const clicks = ["Space", "Enter", "NumpadEnter"].includes(event.code);
  return clicks && event.target instanceof Element && event.target.closest("button, input, a, summary") !== null;
}

// Keys that are held while another is pressed.
const HELD = /^(Shift|Control|Alt|Meta|OS|Fn|CapsLock|NumLock)/;

/**
 * Hear one stroke on an element in place of what it usually does. Escape or leaving it ends that.
 * @param {HTMLElement} element
 * @param {(stroke: string) => boolean} take whether it is good; else another is waited for
 * @param {() => void} cancel
 */
export function hearStroke(element, take, cancel) {
  const ending = new AbortController();
  element.addEventListener("keydown", (event) => {
    if (event.code === "Tab") return; // leaves it
    event.preventDefault();
    event.stopPropagation();
    if (event.repeat || HELD.test(event.code) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      ending.abort();
      cancel();
    } else if (take(strokeOf(event))) ending.abort();
  }, { signal: ending.signal });
  element.addEventListener("blur", () => { ending.abort(); cancel(); }, { signal: ending.signal });
}

/**
 * Hear strokes.
 * @param {(digit: number, probably: boolean) => void} onDigit
 * @param {(action: string) => void} onAction
 */
export function listenToKeys(onDigit, onAction) {
  /** @type {Record<string, number>} */
  const times = {};
  document.addEventListener("keydown", (event) => {
    const before = times[event.code] ?? -Infinity;
    times[event.code] = event.timeStamp;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.isComposing || isWriting(event.target) || isClick(event)) return;
    const isSame = event.repeat || event.timeStamp - before < BOUNCE;
    const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code);
    const stroke = strokeOf(event);
    const action = Object.keys(ACTIONS).find((name) => codeOf(name) === stroke);
    if (!digit && !action) return;
    event.preventDefault();
    if (isSame) return;
    if (digit) onDigit(Number(digit[1]), event.shiftKey);
    else if (action) onAction(action);
  });
}
