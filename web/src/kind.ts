import type { Value } from './api'

// What the numbers of a run are: 'measured', 'profiled', 'simulated', or 'simulated 20x' of a rehearsal whose time passed 20
// times faster (pkg/records.Kind). No other place compares a kind with a word.

export const isSimulated = (kind: Value | undefined) => kind === 'simulated' || (typeof kind === 'string' && kind.startsWith('simulated '))

/** Whether the numbers are no measurements of an engine as it is. */
export const isUnreal = (kind: Value | undefined) => isSimulated(kind) || kind === 'profiled'

/** The word by which a kind is explained and coloured. */
export const wordOf = (kind: Value | undefined) => (isSimulated(kind) ? 'simulated' : String(kind ?? ''))

/** Whether each row of these runs has to say which kind it is: all but runs of one simulated kind. */
export const isMixed = (counts: Map<string, number>, runs: number) => ![...counts].some(([kind, n]) => isSimulated(kind) && n === runs)

/** How many of counted runs are simulated, at whatever speed. */
export function simulatedOf(counts: Map<string, number>): number {
  let sum = 0
  for (const [kind, runs] of counts) if (isSimulated(kind)) sum += runs
  return sum
}
