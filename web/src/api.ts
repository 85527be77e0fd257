// What every page asks, and who answers: a server, or a page that has its runs in itself.

import type { Answer, Experiment, Filter, Impacts, Options, Order, Query, Scalings } from './answers'

export type * from './answers'

/** A refusal by the server, or no answer at all, with what to do about it. */
export class Problem extends Error {
  readonly status: number
  readonly details: string[]
  constructor(status: number, title: string, details: string[]) {
    super(title)
    this.status = status
    this.details = details
  }
}

/** Answers what every page asks. */
export interface Source {
  options: (s?: AbortSignal) => Promise<Options>
  apply: (q: Query, s?: AbortSignal) => Promise<Answer>
  experiment: (id: string, s?: AbortSignal) => Promise<Experiment>
  pareto: (body: { filter?: Filter; x: string; y: string }, s?: AbortSignal) => Promise<{ ids: string[] | null; kind: string }>
  impact: (body: { filter?: Filter; metric: string }, s?: AbortSignal) => Promise<Impacts>
  scaling: (body: { filter?: Filter; metric: string }, s?: AbortSignal) => Promise<Scalings>
  /** The matching runs as a file; without fields, with all that any run has. */
  saved: (format: 'csv' | 'json', body: { filter?: Filter; fields?: string[]; sort?: Order[] }) => Promise<Blob>
}

export let api: Source

/** Says who answers. The entry of a page does so before it shows anything. */
export function answerFrom(source: Source): void {
  api = source
}
