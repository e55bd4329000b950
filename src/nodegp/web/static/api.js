/**
 * Speaking with the server. A command has an id, is kept in this browser until the server has
 * confirmed it, and is sent again with the same id for as long as it takes: so it is done once.
 */

/** @typedef {import("./types.js").Reply} Reply */
/** @typedef {{id: string, kind: string, data: Record<string, any>}} Command */

const OUTBOX = "nodegp-outbox";
const WAITS = [0.2, 0.5, 1, 2];

/** An answer of the server's that is no success. */
export class Refusal extends Error {
  /** @param {string} text @param {number} status */
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

/**
 * @param {string} path
 * @returns {Promise<any>}
 */
export async function get(path) {
  return read(await fetch(path, { credentials: "same-origin" }));
}

/** @param {Response} response */
async function read(response) {
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  let why = text;
  try {
    why = JSON.parse(text).error;
  } catch {
    // a sentence, as it is
  }
  throw new Refusal(why, response.status);
}

/** Whether a refusal may be gone when the command is sent again. @param {unknown} error */
function mayPass(error) {
  return !(error instanceof Refusal) || error.status >= 500 || error.status === 401;
}

/** @returns {Command[]} what the server has not confirmed */
export function unconfirmed() {
  try {
    return JSON.parse(localStorage.getItem(OUTBOX) ?? "[]");
  } catch {
    return [];
  }
}

/** @param {Command[]} commands */
function keep(commands) {
  localStorage.setItem(OUTBOX, JSON.stringify(commands));
}

/** @type {Promise<any>} */
let last = Promise.resolve();

/**
 * Do something, for certain and once.
 * @param {string} kind
 * @param {Record<string, any>} data
 * @param {(trouble: string) => void} tell hears why it takes long; "" when it is done
 * @returns {Promise<Reply>}
 */
export function command(kind, data, tell) {
  const one = { id: identifier(), kind, data };
  keep([...unconfirmed(), one]);
  last = last.catch(() => undefined).then(() => send(one, tell));
  return last;
}

/**
 * Send what was not confirmed when the page was closed.
 * @param {(trouble: string) => void} tell
 */
export async function sendUnconfirmed(tell) {
  for (const one of unconfirmed()) await send(one, tell).catch(() => undefined);
}

/**
 * @param {Command} one
 * @param {(trouble: string) => void} tell
 * @returns {Promise<Reply>}
 */
async function send(one, tell) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const reply = await post(one);
      keep(unconfirmed().filter((other) => other.id !== one.id));
      tell("");
      return reply;
    } catch (error) {
      if (!mayPass(error)) {
        keep(unconfirmed().filter((other) => other.id !== one.id));
        tell("");
        throw error;
      }
      tell(why(error));
    }
    const wait = WAITS[Math.min(attempt, WAITS.length - 1)];
    await new Promise((done) => setTimeout(done, 1000 * wait));
  }
}

/** @param {unknown} error */
function why(error) {
  if (!(error instanceof Refusal)) {
    return "The server does not answer. Your last answer is kept here and sent when it is back.";
  }
  if (error.status === 401) {
    return "The server was started anew: open the link that it printed. Your last answer is kept.";
  }
  return `Not saved yet: ${error.message}. It is tried again.`;
}

/** @param {Command} one */
async function post(one) {
  const response = await fetch("/api/do", {
    method: "POST",
    credentials: "same-origin",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(one),
  });
  return read(response);
}

function identifier() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Hear of what others did.
 * @param {(news: {seq: number, event: string}) => void} hear
 * @param {(isThere: boolean) => void} connected
 */
export function listen(hear, connected) {
  const source = new EventSource("/api/news");
  source.onmessage = (message) => hear(JSON.parse(message.data));
  source.onopen = () => connected(true);
  source.onerror = () => {
    connected(false);
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(() => listen(hear, connected), 1000); // the browser has given up; we have not
    }
  };
}
