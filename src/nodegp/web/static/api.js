/**
 * Speaking with the server. A command has an id, is kept in this browser until the server has
 * confirmed it, and is sent again with the same id for as long as it takes: so it is done once.
 * It is kept for its journal: another one may be served at the same address later.
 */

/** @import { Command, Reply } from "./types.js" */

const OUTBOX = "nodegp-outbox:"; // and the journal
const WAITS = [0.2, 0.5, 1, 2];
const TRIES = 4; // of a command that the server fails at: the fifth would fail too

/** An answer of the server's that is no success. */
export class Refusal extends Error {
  tries = 1;
  isKept = false; // for its journal, which is not the one that is open

  /** @param {string} text @param {number} status */
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

let journal = "";

/** From now on it is this journal that one writes to. @param {string} name */
export function useJournal(name) {
  journal = name;
}

/** @param {string} path @returns {Promise<any>} */
export async function get(path) {
  return read(await fetch(path));
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

/** What the server has not confirmed. @param {string} [of] which journal @returns {Command[]} */
export function unconfirmed(of = journal) {
  try {
    return JSON.parse(localStorage.getItem(OUTBOX + of) ?? "[]");
  } catch {
    return [];
  }
}

/** @param {string} of @param {Command[]} commands */
function keep(of, commands) {
  if (commands.length) localStorage.setItem(OUTBOX + of, JSON.stringify(commands));
  else localStorage.removeItem(OUTBOX + of);
}

/** @type {Promise<any>} */
let last = Promise.resolve();

/**
 * Do something, for certain and once.
 * @param {string} kind
 * @param {Record<string, any>} data
 * @param {string} node what the node is called, if it is about one
 * @param {(trouble: string) => void} tell hears why it takes long; "" when it is done
 * @returns {Promise<Reply>}
 */
export function command(kind, data, node, tell) {
  const [of, one] = [journal, { id: identifier(), kind, data, node }];
  keep(of, [...unconfirmed(of), one]);
  last = last.catch(() => undefined).then(() => send(of, one, tell));
  return last;
}

/**
 * Send what was not confirmed when the page was closed.
 * @param {(trouble: string) => void} tell
 * @param {(one: Command, error: unknown) => void} refused hears of each that was not done
 */
export async function sendUnconfirmed(tell, refused) {
  const of = journal;
  for (const one of unconfirmed(of)) await send(of, one, tell).catch((error) => refused(one, error));
}

/**
 * @param {string} of the journal
 * @param {Command} one
 * @param {(trouble: string) => void} tell
 * @returns {Promise<Reply>}
 */
async function send(of, one, tell) {
  const forget = () => keep(of, unconfirmed(of).filter((other) => other.id !== one.id));
  let failures = 0;
  for (let attempt = 0; ; attempt += 1) {
    try {
      const reply = await post(of, one);
      forget();
      tell("");
      return reply;
    } catch (error) {
      if (error instanceof Refusal && error.status === 500) failures += 1;
      if (error instanceof Refusal && (!mayPass(error) || failures >= TRIES)) {
        const now = error.status === 409 ? await get("/api/standing").catch(() => null) : {};
        if (now) { // else it is not known why it was refused
          error.tries = attempt + 1;
          error.isKept = (now.journal ?? of) !== of;
          if (!error.isKept) forget();
          tell("");
          throw error;
        }
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

/** @param {string} of the journal @param {Command} one */
async function post(of, one) {
  const { id, kind, data } = one;
  const response = await fetch("/api/do", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ id, kind, data, journal: of || undefined }),
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
