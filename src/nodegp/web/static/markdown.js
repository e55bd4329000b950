/**
 * The little of Markdown that a guideline needs: headings, lists, paragraphs, code, bold, emphasis.
 * Everything is put in as text; a link is shown with its address and leads nowhere.
 */
import { el } from "./dom.js";

/** @param {string} markdown @returns {HTMLElement[]} */
export function markdownParts(markdown) {
  /** @type {HTMLElement[]} */
  const parts = [];
  const blocks = markdown.replace(/\r\n?/g, "\n").split(/\n(?:[ \t]*\n)+/);
  for (const block of blocks) parts.push(...blockParts(block));
  return parts;
}

/** @param {string} block @returns {HTMLElement[]} */
function blockParts(block) {
  const lines = block.split("\n").filter((line) => line.trim());
  if (!lines.length) return [];
  const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(lines[0]);
  if (heading) {
    const level = Math.min(heading[1].length + 2, 6);
    return [el(`h${level}`, {}, ...inline(heading[2])), ...blockParts(lines.slice(1).join("\n"))];
  }
  if (lines[0].startsWith("```")) {
    return [el("pre", {}, lines.filter((line) => !line.startsWith("```")).join("\n"))];
  }
  const bullet = /^\s*(?:[-*+]|(\d+)[.)])\s+/;
  const first = bullet.exec(lines[0]);
  if (first) {
    /** @type {string[]} */
    const items = [];
    for (const line of lines) {
      if (bullet.test(line)) items.push(line.replace(bullet, ""));
      else items[items.length - 1] += ` ${line.trim()}`;
    }
    return [el(first[1] ? "ol" : "ul", {}, ...items.map((item) => el("li", {}, ...inline(item))))];
  }
  const list = lines.findIndex((line) => bullet.test(line));
  if (list > 0) {
    return [...blockParts(lines.slice(0, list).join("\n")), ...blockParts(lines.slice(list).join("\n"))];
  }
  const quoted = lines.every((line) => line.startsWith(">"));
  const text = lines.map((line) => (quoted ? line.replace(/^>\s?/, "") : line)).join(" ");
  return [el(quoted ? "blockquote" : "p", { dir: "auto" }, ...inline(text))];
}

/** @param {string} text @returns {(HTMLElement | string)[]} */
function inline(text) {
  /** @type {(HTMLElement | string)[]} */
  const parts = [];
  const marks = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|_([^_]+)_|\[([^\]]+)\]\(([^)\s]+)\)/g;
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
  return parts;
}
