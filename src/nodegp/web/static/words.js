/**
 * What somebody did, in words: its kind, what was sent with it, and what the node is called.
 * @param {string} kind @param {Record<string, any>} data @param {string} [node]
 */
export function deed(kind, data, node = "") {
  const on = node ? ` on ${node}` : "";
  const of = node ? ` for ${node}` : "";
  const { name, to } = data;
  /** @type {Record<string, string>} */
  const words = {
    answer: (data.label ? `“${data.label}”` : "an answer") + of,
    unknown: `“cannot tell”${of}`,
    later: `“later”${of}`,
    flag: (data.on === false ? "taking away the flag" : "the flag") + on,
    note: `a note${on}`,
    request: `the wish to be asked about ${node || "a node"} next`,
    "class-added": `the new class “${name}”`,
    "class-renamed": `class “${name}” called “${to}”`,
    "class-merged": `class “${name}” merged into “${to}”`,
    mode: `suggestions ${data.suggestions ? "on" : "off"}`,
  };
  return words[kind] ?? kind;
}
