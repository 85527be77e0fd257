import { useState } from 'react'
import type { Judgement } from '../api'
import { formatInterval, formatMeasured, formatP, formatPercent, withSigns } from '../format'
import { Interval, reachOf } from '../parts/Interval'
import { Outcome } from '../parts/Outcome'
import { SideName } from './CompareNumbers'

/** The verdict on two sides: each metric with its shift and interval. */
export function Judged({ j, lines }: { j: Judgement; lines: string[] }) {
  const metrics = j.metrics ?? []
  const reach = reachOf(metrics.flatMap((m) => [m.shift_percent, m.low_percent, m.high_percent]))
  const whys = new Set(metrics.map((m) => m.why ?? ''))
  // What differs has a table of its own, and the metrics are in this one.
  const shown = lines.filter((l) => !metrics.some((m) => l.startsWith(m.name)) && !/^differs: |settings? differs?; /.test(l) && !(whys.size > 1 && whys.has(l)))
  return (
    <section>
      <h2>{j.test} <Outcome word={j.verdict} /> {j.kind && <span className="badge simulated">{j.kind}</span>}</h2>
      {metrics.length > 0 && (
        <div className="scroll-x">
          <table className="list">
            <thead>
              <tr>
                <th scope="col">Metric</th><th scope="col" className="num"><SideName name={j.first.name} /></th>
                <th scope="col" className="num"><SideName second name={j.second.name} /></th>
                <th scope="col" className="num">Difference</th>
                <th scope="col"><span className="sr">Picture of the shift</span></th>
                <th scope="col" className="num">Interval</th><th scope="col" className="num">p</th><th scope="col">Verdict</th>
              </tr>
            </thead>
            <tbody>
              {metrics.map((m) => (
                <tr key={m.key}>
                  <th scope="row" className="nowrap">{m.name}{m.unit && <span className="quiet"> {m.unit}</span>}</th>
                  <td className="num">{m.first.median === null ? '–' : formatMeasured(m.first.median)}{m.first.n > 1 && <span className="quiet"> n={m.first.n}</span>}</td>
                  <td className="num">{m.second.median === null ? '–' : formatMeasured(m.second.median)}{m.second.n > 1 && <span className="quiet"> n={m.second.n}</span>}</td>
                  <td className="num strong">{m.shift_percent === null ? '–' : formatPercent(m.shift_percent)}</td>
                  <td>{m.shift_percent !== null && <Interval value={m.shift_percent} low={m.low_percent} high={m.high_percent} reach={reach} good={goodness(m.verdict)} />}</td>
                  <td className="num">{m.low_percent !== null && m.high_percent !== null ? formatInterval(m.low_percent, m.high_percent) : '–'}</td>
                  <td className="num">{m.p === null ? '–' : formatP(m.p)}</td>
                  <td><Outcome word={m.verdict} />{m.why && whys.size > 1 && <span className="quiet"> {withSigns(m.why)}</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Lines lines={shown.map(withSigns)} />
      {j.commands && j.commands.length > 0 && (
        <>
          <p className="quiet">Commands that make the missing runs:</p>
          <pre>{j.commands.join('\n')}</pre>
        </>
      )}
    </section>
  )
}

const few = 6

/** What is to be known of a verdict; the end of a long list comes on demand. */
function Lines({ lines }: { lines: string[] }) {
  const [all, setAll] = useState(false)
  const long = lines.length > few + 1
  if (lines.length === 0) return null
  return (
    <>
      <ul className="lines">{(all || !long ? lines : lines.slice(0, few)).map((l, i) => <li key={i}>{l}</li>)}</ul>
      {long && <button type="button" className="plain" aria-expanded={all} onClick={() => setAll(!all)}>{all ? 'Fewer lines' : `${lines.length - few} more lines`}</button>}
    </>
  )
}

const goodness = (verdict: string) => (verdict === 'improved' ? true : verdict === 'regressed' ? false : undefined)
