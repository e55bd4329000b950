/**
 * What the server says. There is no code here: these are the types of the others.
 *
 * @typedef {{number: number, id: string, title: string, label: string | null}} Brief
 * @typedef {Brief & {node: number, ring: number, x: number, y: number}} Drawn
 * @typedef {{nodes: Drawn[], edges: [number, number][], omitted: number}} Drawing
 * @typedef {{name: string, value: number | null, median?: number, below?: number, upto?: number}} Place
 * @typedef {{name: string, probability: number}} Guess
 * @typedef {{kind: string, label: string | null, confidence: number}} Said
 * @typedef {{number: number, id: string, title: string, texts: {name: string, text: string}[],
 *   numbers: Place[], neighbours: Brief[], n_neighbours: number, n_labelled: number,
 *   ways: {label: string, nodes: Brief[]}[], drawing: Drawing, said: Said | null,
 *   flagged: boolean, note: string, why?: string, strategy?: string, suggestion?: Guess[]}} Node
 * @typedef {{classes: {name: string, labels: number, predicted: number}[], labels: number,
 *   answers: number, unknown: number, later: number, flagged: number, entropy: number | null,
 *   changed: number | null, rest: number | null, leave_one_out: number | null,
 *   estimate: {right: number, drawn: number, accuracy: number, low: number, high: number} | null,
 *   curve: [number, number | null, number | null][],
 *   advice: {stop: boolean, text: string} | null}} Panels
 * @typedef {{seq: number, question: Node | null, classes: string[], panels: Panels,
 *   history: (Brief & {kind: string})[], can_undo: string, can_redo: string,
 *   suggestions: boolean, confidence: number, strategy: string, read_only: boolean,
 *   trouble: string, name?: string, guideline?: boolean, journal?: string}} Standing
 * @typedef {{id: string, kind: string, data: Record<string, any>, node?: string}} Command
 * @typedef {{kind: string, changed: number | null, rest: number | null, number?: number,
 *   id?: string, label?: string, confidence?: number, probability?: number, predicted?: string,
 *   predicted_probability?: number, why?: string, corrects?: number,
 *   of?: Outcome}} Outcome
 * @typedef {Standing & {event: string, outcome: Outcome}} Reply
 * @typedef {{number: number, before: boolean, class?: string, probabilities: Guess[],
 *   labels: (Brief & {share: number})[]}} Thoughts
 */
export {};
