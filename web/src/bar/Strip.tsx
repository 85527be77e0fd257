import type { Answer } from '../api'
import { countsOf, useKnown } from '../data'
import { choiceOf, choose, join, nothing, parts } from '../filter'
import { formatMeasured, nameOf, plural } from '../format'
import { simulatedOf } from '../kind'
import { update, type State } from '../state'

const verdicts = ['valid', 'suspect', 'invalid']

/** How many runs match, what they are worth, and the range of the main metrics. */
export function Strip({ state, answer }: { state: State; answer: Answer | undefined }) {
  const { options, fields } = useKnown()
  const verdict = answer ? countsOf(answer, 'verdict', state) : new Map<string, number>()
  const simulated = answer ? simulatedOf(countsOf(answer, 'kind', state)) : 0
  const matches = answer?.matches
  const chosen = choiceOf(parts(state.filter), 'verdict')
  const pick = (word: string) => {
    const values = chosen.values.includes(word) ? chosen.values.filter((v) => v !== word) : [...chosen.values, word]
    update({ filter: join(choose(parts(state.filter), 'verdict', { ...nothing, values })) })
  }
  return (
    <section className="strip" aria-label="Summary">
      <div className="matches" aria-live="polite">
        <strong>{matches === undefined ? '–' : matches.toLocaleString('en-US')}</strong>
        <span className="quiet">of {plural(answer?.runs ?? options.runs, 'run')}</span>
      </div>
      <div className="by-verdict" role="group" aria-label="By verdict">
        {verdicts.map((v) => (
          <button
            key={v} type="button" className={`tally ${v}`} aria-pressed={chosen.values.includes(v)} onClick={() => pick(v)}
            title={`Show ${v} runs only`}
          >
            <span className="dot" aria-hidden="true" />{v} <b>{(verdict.get(v) ?? 0).toLocaleString('en-US')}</b>
          </button>
        ))}
        {simulated > 0 && (
          <span className="badge simulated">
            {simulated === matches ? 'all simulated' : `${simulated.toLocaleString('en-US')} simulated`}
          </span>
        )}
      </div>
      <dl className="stats">
        {options.defaults.metrics.slice(0, 6).map((name) => {
          const f = fields.get(name)
          const s = answer?.metrics?.find((m) => m.field === name)
          if (!f) return null
          const has = s && s.mean !== null && s.min !== null && s.max !== null
          return (
            <div key={name}>
              <dt title={f.help || f.name}>{nameOf(f)}{f.unit && <span> {f.unit}</span>}</dt>
              <dd>
                <b>{has ? formatMeasured(s.mean as number) : '–'}</b>
                <span className="quiet">{!has ? 'no numbers' : s.min !== s.max && `mean, ${formatMeasured(s.min as number)} – ${formatMeasured(s.max as number)}`}</span>
              </dd>
            </div>
          )
        })}
      </dl>
    </section>
  )
}
