/**
 * What opens above the page: finding a class, changing classes, a note, keys, export, a guideline.
 */
import { byId, el, hint, show } from "./dom.js";
import { badge } from "./colours.js";
import { ACTIONS, hearStroke, nameOf, nameOfCode, remap, resetKeys, takenBy } from "./keys.js";
import { markdownParts } from "./markdown.js";

/** @returns {HTMLDialogElement} */
function dialog() {
  return /** @type {HTMLDialogElement} */ (byId("dialog"));
}

/** @param {string} title @param {...HTMLElement} parts */
function open(title, ...parts) {
  const close = el("button", { type: "button", class: "close", "aria-label": "Close", onclick: closeDialog }, "×");
  show("dialog", el("header", {}, el("h2", { id: "dialog-title" }, title), close), ...parts);
  dialog().setAttribute("aria-labelledby", "dialog-title");
  if (!dialog().open) dialog().showModal();
  const first = dialog().querySelector("input[type=text], textarea");
  if (first instanceof HTMLElement) first.focus();
}

export function closeDialog() {
  dialog().close();
}

/**
 * Type to find one of many classes.
 * @param {string[]} classes
 * @param {(name: string, probably: boolean) => void} choose
 */
export function findClass(classes, choose) {
  const list = el("ul", { class: "found", role: "listbox", id: "found", "aria-label": "Classes" });
  const input = el("input", {
    type: "text", class: "find", "aria-label": "Class", role: "combobox", "aria-expanded": "true",
    "aria-controls": "found", autocomplete: "off", placeholder: "type a part of its name",
  });
  let at = 0;
  /** @type {string[]} */
  let found = [];
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = classes.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
    at = Math.max(0, Math.min(at, found.length - 1));
    list.replaceChildren(
      ...found.slice(0, 50).map((name, place) => el("li", {
        id: `found${place}`, role: "option", "aria-selected": `${place === at}`, onclick: () => take(name, false),
      }, badge(name, classes))),
    );
    input.setAttribute("aria-activedescendant", found.length ? `found${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  /** @param {string} name @param {boolean} probably */
  const take = (name, probably) => {
    closeDialog();
    choose(name, probably);
  };
  input.addEventListener("input", () => { at = 0; draw(); });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown") at += 1;
    else if (event.key === "ArrowUp") at -= 1;
    else if (event.key === "Enter") {
      event.preventDefault();
      if (found[at] !== undefined && !event.repeat) take(found[at], event.shiftKey);
      return;
    } else return;
    event.preventDefault();
    draw();
  });
  open("Find a class", input, list);
  draw();
}

/** @param {string} text @param {(text: string) => void} keep */
export function writeNote(text, keep) {
  const area = el("textarea", { rows: 5, maxlength: 20000, "aria-label": "Note" });
  area.value = text;
  const done = () => {
    closeDialog();
    if (area.value.trim() !== text) keep(area.value.trim());
  };
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) done();
  });
  open("Note", area, el("p", { class: "buttons" }, button("Keep the note", done)),
    hint("Ctrl and Enter keeps it, Escape leaves it as it was."));
}

/**
 * Add, rename and merge classes.
 * @param {string[]} classes
 * @param {(kind: string, data: Record<string, string>) => void} change
 */
export function changeClasses(classes, change) {
  const added = field("New class");
  const renamed = choice("Rename", classes);
  const name = field("to");
  const merged = choice("Merge", classes);
  const into = choice("into", classes);
  into.input.selectedIndex = Math.min(1, classes.length - 1); // not the one that is merged
  /** @param {string} kind @param {Record<string, string>} data */
  const act = (kind, data) => {
    if (Object.values(data).some((value) => !value.trim())) return;
    closeDialog();
    change(kind, data);
  };
  open(
    "Classes",
    form([added.label], "Add", () => act("class-added", { name: added.input.value })),
    form([renamed.label, name.label], "Rename", () =>
      act("class-renamed", { name: renamed.input.value, to: name.input.value })),
    form([merged.label, into.label], "Merge", () =>
      act("class-merged", { name: merged.input.value, to: into.input.value })),
    hint("Each of these can be undone like an answer."),
  );
}

/** @param {HTMLElement[]} fields @param {string} text @param {() => void} act */
function form(fields, text, act) {
  const one = el("form", { class: "row" }, ...fields, el("button", { type: "submit" }, text));
  one.addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });
  return one;
}

/** @param {string} text */
function field(text) {
  const input = el("input", { type: "text", maxlength: 200 });
  return { input, label: el("label", {}, text, input) };
}

/** @param {string} text @param {string[]} names */
function choice(text, names) {
  const input = el("select", {}, ...names.map((name) => el("option", {}, name)));
  return { input, label: el("label", {}, text, input) };
}

/** @param {string} text @param {() => void} act */
export function button(text, act) {
  return el("button", { type: "button", onclick: act }, text);
}

/**
 * The keys, each of which can be changed, and how one wishes to be asked.
 * @param {{suggestions: boolean, confidence: number, readOnly: boolean}} now
 * @param {{suggest: (wished: boolean) => void, probably: (share: number) => void, redraw: () => void}} set
 */
export function showKeys(now, set) {
  const rows = Object.entries(ACTIONS).map(([action, { means }]) =>
    el("tr", {}, el("td", {}, keyButton(action, set.redraw)), el("td", {}, means)),
  );
  const wished = el("input", { type: "checkbox", disabled: now.readOnly });
  wished.checked = now.suggestions;
  wished.addEventListener("change", () => set.suggest(wished.checked));
  const sure = el("input", { type: "number", min: 0.05, max: 0.99, step: 0.05, value: now.confidence });
  sure.addEventListener("change", () => {
    if (sure.validity.valid) set.probably(Number(sure.value));
  });
  open(
    "Keys",
    el("table", { class: "keys" }, el("tbody", {},
      el("tr", {}, el("td", {}, el("kbd", {}, "1"), " to ", el("kbd", {}, "9")), el("td", {}, "a class")),
      el("tr", {}, el("td", {}, el("kbd", {}, "⇧ 1"), " to ", el("kbd", {}, "⇧ 9")), el("td", {}, "probably that class")),
      ...rows)),
    hint("Keys go by their place on the keyboard. Click one and press another to change it. ",
      button("As they were", () => { resetKeys(); set.redraw(); showKeys(now, set); })),
    el("p", {}, el("label", {}, "“Probably” means a confidence of ", sure)),
    el("p", {}, el("label", {}, wished, " show what the model thinks before I answer")),
    hint("Suggestions shift the answers towards the model and make it look better than it is. " +
      "With them on, one question in ten still comes without, and the journal notes which."),
  );
}

/** @param {string} action @param {() => void} redraw */
function keyButton(action, redraw) {
  const one = el("button", { type: "button", class: "key", "aria-label": `Change the key for ${ACTIONS[action].means}` }, nameOf(action));
  const rest = () => {
    one.textContent = nameOf(action);
    isWaiting = false;
  };
  let isWaiting = false;
  one.addEventListener("click", () => {
    if (isWaiting) return;
    isWaiting = true;
    one.focus(); // not every browser does that with what is clicked
    one.textContent = "press a key";
    hearStroke(one, (stroke) => {
      const other = takenBy(action, stroke);
      if (other) {
        one.textContent = `${nameOfCode(stroke)} is taken, press another`;
        return false;
      }
      remap(action, stroke);
      rest();
      redraw();
      return true;
    }, rest);
  });
  return one;
}

/** @param {string} markdown */
export function showGuideline(markdown) {
  open("Guideline", el("div", { class: "guideline" }, ...markdownParts(markdown)));
}

export function showExport() {
  /** @type {Record<string, string>} */
  const formats = { csv: "CSV, for nodegp update and spreadsheets", jsonl: "JSON lines", parquet: "Parquet" };
  open(
    "Export",
    el("ul", { class: "exports" }, ...Object.entries(formats).map(([format, text]) =>
      el("li", {}, el("a", { href: `/api/export/${format}`, download: `labels.${format}` }, text)))),
    hint("Every answer is in the journal already: closing the page loses nothing."),
  );
}
