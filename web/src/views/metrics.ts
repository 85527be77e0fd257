import type { Field } from '../api'
import { useKnown } from '../data'
import type { State } from '../state'

/** Metrics of which more or less is better. */
export const ranked = (f: Field) => f.group === 'metric' && f.better !== undefined && f.better !== ''

/** The metric of a view, if the address names none. */
export function useMetric(state: State): string {
  const { options, fields } = useKnown()
  return [state.metric, 'output_throughput', ...options.defaults.metrics].find((n) => n !== undefined && fields.has(n)) ?? ''
}
