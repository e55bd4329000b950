/**
 * The little of Markdown that a guideline needs: headings, paragraphs, lists, tables, quotes, code,
 * bold, emphasis. Everything is put in as text; a link is shown with its address and leads nowhere.
 */
import { el } from "./dom.js";

const BLANK = /^\s*$/;
const FENCE = /^ *(```+|~~~+)/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*\s*$/;
const QUOTE = /^ {0,3}>\s?/;
const ITEM = /^( *)([-*+]|(\d{1,9})[.)]) +/;
const DASHES = /^ *\|?( *:?-+:? *\|)+( *:?-+:? *)?$/; // below the heads of a table

/** @param {string} markdown @returns {HTMLElement[]} */
export function markdownParts(markdown) {
  return blocks(markdown.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"));
}

/** @param {string[]} lines @returns {HTMLElement[]} */
function blocks(lines) {
  /** @type {HTMLElement[]} */
  const parts = [];
  let at = 0;
  /** This line and those after it that belong to it. @param {(at: number) => boolean} isMore */
  const take = (isMore) => {
    const from = at;
    do at += 1; while (at < lines.length && isMore(at));
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const heading = HEADING.exec(line);
    const fence = FENCE.exec(line);
    if (BLANK.test(line)) at += 1;
    else if (heading) {
      const tag = /** @type {"h3"} */ (`h${Math.min(heading[1].length + 2, 6)}`);
      parts.push(el(tag, {}, ...inline(heading[2])));
      at += 1;
    } else if (fence) {
      const code = take((next) => !lines[next].trim().startsWith(fence[1])).slice(1);
      at += 1; // the fence below
      parts.push(el("pre", {}, code.map((one) => undent(one, indent(line))).join("\n")));
    } else if (ITEM.test(line)) {
      const end = listEnd(lines, at);
      parts.push(list(take((next) => next < end)));
    } else if (QUOTE.test(line)) {
      const quoted = take((next) => QUOTE.test(lines[next])).map((one) => one.replace(QUOTE, ""));
      parts.push(el("blockquote", {}, ...blocks(quoted)));
    } else if (isTable(lines, at)) parts.push(table(take((next) => lines[next].includes("|"))));
    else {
      const text = take((next) => !BLANK.test(lines[next]) && !interrupts(lines, next));
      parts.push(el("p", { dir: "auto" }, ...inline(text.map((one) => one.trim()).join(" "))));
    }
  }
  return parts;
}

/** @param {string[]} lines @param {number} at */
function isTable(lines, at) {
  return lines[at].includes("|") && DASHES.test(lines[at + 1] ?? "");
}

/** Whether a line ends the paragraph before it. @param {string[]} lines @param {number} at */
function interrupts(lines, at) {
  const item = ITEM.exec(lines[at]);
  if (item) return item[3] === undefined || item[3] === "1"; // others may be years
  return [FENCE, HEADING, QUOTE].some((kind) => kind.test(lines[at])) || isTable(lines, at);
}

/** @param {string} line */
function indent(line) {
  return line.length - line.trimStart().length;
}

/** @param {string} line @param {number} margin */
function undent(line, margin) {
  return line.slice(Math.min(margin, indent(line)));
}

/** @param {string[]} lines @param {number} at */
function listEnd(lines, at) {
  const first = ITEM.exec(lines[at]);
  const own = indent(lines[at]);
  let end = at + 1;
  for (let next = end; next < lines.length; next += 1) {
    if (BLANK.test(lines[next])) continue; // perhaps the list goes on behind it
    const item = ITEM.exec(lines[next]);
    const isMore = item && indent(lines[next]) <= own + 1
      ? indent(lines[next]) >= own - 1 && !item[3] === !first?.[3]
      : indent(lines[next]) > own || (next === end && !interrupts(lines, next));
    if (!isMore) break;
    end = next + 1;
  }
  return end;
}

/** @param {string[]} lines */
function list(lines) {
  const own = indent(lines[0]);
  /** @type {string[][]} */
  const items = [];
  let margin = 0;
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && indent(line) <= own + 1) {
      margin = item[0].length;
      items.push([line.slice(margin)]);
    } else items[items.length - 1].push(undent(line, margin));
  }
  const number = ITEM.exec(lines[0])?.[3];
  return el(number ? "ol" : "ul", { start: number && number !== "1" ? number : null }, ...items.map((item) => {
    const [first, ...rest] = blocks(item);
    const text = first?.tagName === "P" ? [...first.childNodes] : [first];
    return el("li", { dir: "auto" }, ...text, ...rest);
  }));
}

/** @param {string[]} lines */
function table(lines) {
  /** @param {string} line @param {"th" | "td"} tag */
  const row = (line, tag) => {
    const cells = line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/);
    return el("tr", {}, ...cells.map((cell) => el(tag, {}, ...inline(cell.replaceAll("\\|", "|").trim()))));
  };
  return el("table", {}, el("thead", {}, row(lines[0], "th")),
    el("tbody", {}, ...lines.slice(2).map((line) => row(line, "td"))));
}

/** @param {string} text @returns {(HTMLElement | string)[]} */
function inline(text) {
  /** @type {(HTMLElement | string)[]} */
  const parts = [];
  const marks = /`([^`]+)`|\*\*([^*]+)\*\*|\*(?!\s)([^*]+)\*|(?<!\w)_([^_]+)_(?!\w)|\[([^\]]+)\]\(([^)\s]+)\)/g;
  let done = 0;
  for (const match of text.matchAll(marks)) {
    parts.push(text.slice(done, match.index));
    const [, code, bold, star, under, name, address] = match;
    if (code !== undefined) parts.push(el("code", {}, code));
    else if (bold !== undefined) parts.push(el("strong", {}, bold));
    else if (name !== undefined) parts.push(`${name} (${address})`);
    else parts.push(el("em", {}, star ?? under));
    done = match.index + match[0].length;
  }
  parts.push(text.slice(done));
  return parts.filter((part) => part !== "");
}
