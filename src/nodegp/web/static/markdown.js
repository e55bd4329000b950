/**
 * The little of Markdown that a guideline needs: headings, paragraphs, lists, tables, quotes, code,
 * bold, emphasis. Everything is put in as text; a link is shown with its address and leads nowhere.
 */
import { el } from "./dom.js";

const BLANK = /^\s*$/;
const FENCE = /^ *(```+|~~~+)/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^(-{3,}|\*{3,}|_{3,})\s*$/;
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
  for (let at = 0; at < lines.length; ) {
    const end = blockEnd(lines, at);
    if (end > at) parts.push(block(lines.slice(at, end)));
    at = Math.max(end, at + 1);
  }
  return parts;
}

/** Where the block ends that begins with a line. @param {string[]} lines @param {number} at */
function blockEnd(lines, at) {
  const line = lines[at];
  if (BLANK.test(line)) return at;
  if (HEADING.test(line) || RULE.test(line)) return at + 1;
  const fence = FENCE.exec(line);
  if (fence) {
    const end = lines.findIndex((other, place) => place > at && other.trim().startsWith(fence[1]));
    return end < 0 ? lines.length : end + 1;
  }
  if (ITEM.test(line)) return listEnd(lines, at);
  let end = at + 1;
  if (QUOTE.test(line)) while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  else if (isTable(lines, at)) while (end < lines.length && lines[end].includes("|")) end += 1;
  else while (end < lines.length && !BLANK.test(lines[end]) && !interrupts(lines, end)) end += 1;
  return end;
}

/** @param {string[]} lines @param {number} at */
function isTable(lines, at) {
  return lines[at].includes("|") && DASHES.test(lines[at + 1] ?? "");
}

/** Whether a line ends the paragraph before it. @param {string[]} lines @param {number} at */
function interrupts(lines, at) {
  const item = ITEM.exec(lines[at]);
  if (item) return item[3] === undefined || item[3] === "1"; // others may be years
  return [FENCE, HEADING, RULE, QUOTE].some((kind) => kind.test(lines[at])) || isTable(lines, at);
}

/** @param {string} line */
function indent(line) {
  return line.length - line.trimStart().length;
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

/** @param {string[]} lines of one block @returns {HTMLElement} */
function block(lines) {
  const heading = HEADING.exec(lines[0]);
  if (heading) return el(`h${Math.min(heading[1].length + 2, 6)}`, {}, ...inline(heading[2]));
  if (RULE.test(lines[0])) return el("hr");
  if (FENCE.test(lines[0])) return el("pre", {}, code(lines));
  if (ITEM.test(lines[0])) return list(lines);
  if (QUOTE.test(lines[0])) {
    return el("blockquote", {}, ...blocks(lines.map((line) => line.replace(QUOTE, ""))));
  }
  if (isTable(lines, 0)) return table(lines);
  return el("p", { dir: "auto" }, ...inline(lines.map((line) => line.trim()).join(" ")));
}

/** What is between fences. @param {string[]} lines */
function code(lines) {
  const [margin, fence] = [indent(lines[0]), FENCE.exec(lines[0])?.[1] ?? ""];
  const isClosed = lines.length > 1 && lines[lines.length - 1].trim().startsWith(fence);
  const inside = lines.slice(1, isClosed ? -1 : undefined);
  return inside.map((line) => line.slice(Math.min(margin, indent(line)))).join("\n");
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
    } else items[items.length - 1].push(line.slice(Math.min(margin, indent(line))));
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
  /** @param {string} line @param {string} tag */
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
