import { formatPercent } from '../format'

interface Props {
  value: number
  low: number | null
  high: number | null
  reach: Reach
  good: boolean | undefined // undefined: no direction is better, or none is shown
}

/** The scale of several intervals, in logarithms of ratios: half and double lie equally far from 0 %. */
export type Reach = number

const width = 130
const height = 16
const ratio = (percent: number) => Math.log(Math.max(0.001, 1 + percent / 100))

export function reachOf(percents: (number | null)[]): Reach {
  return Math.max(Math.log(1.02), ...percents.map((x) => (x === null ? 0 : Math.abs(ratio(x))))) * 1.04
}

/** An effect in percent with its interval. */
export function Interval({ value, low, high, reach, good }: Props) {
  const at = (x: number) => width / 2 + Math.max(-1, Math.min(1, ratio(x) / reach)) * (width / 2 - 6)
  const look = good === undefined ? 'unsure' : good ? 'good' : 'bad'
  const between = low !== null && high !== null
  const text = between ? `, interval ${formatPercent(low)} to ${formatPercent(high)}` : ''
  return (
    <svg className={`interval ${look}`} width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${formatPercent(value)}${text}`}>
      <line className="zero" x1={width / 2} x2={width / 2} y1="0" y2={height} />
      {between && <line className="whisker" x1={at(low)} x2={at(high)} y1={height / 2} y2={height / 2} />}
      <circle cx={at(value)} cy={height / 2} r="4" />
    </svg>
  )
}
