import { useCallback } from 'react'
import type { Field } from '../api'
import { useKnown } from '../data'
import { useOffer } from '../offer'
import type { State } from '../state'

/** Metrics of which more or less is better. */
export const ranked = (f: Field) => f.group === 'metric' && f.better !== undefined && f.better !== ''

/** The ranked metrics of which the page has statistics. */
export function useRanked(): (f: Field) => boolean {
  const { options } = useKnown()
  const main = useOffer().statistics === 'of all runs'
  return useCallback((f: Field) => ranked(f) && (!main || options.defaults.metrics.includes(f.name)), [options, main])
}

/** The metric of a view, if the address names none that the page has statistics of. */
export function useMetric(state: State): string {
  const { options, fields } = useKnown()
  const { metrics } = options.defaults
  const asked = useOffer().statistics === 'of all runs' && !metrics.includes(state.metric ?? '') ? undefined : state.metric
  return [asked, 'output_throughput', ...metrics].find((n) => n !== undefined && fields.has(n)) ?? ''
}
