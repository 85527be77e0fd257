import { formatPercent } from '../format'

interface Props {
  value: number
  low: number | null
  high: number | null
  reach: number // of the scale, to both sides of 0
  good: boolean | undefined // undefined: no direction is better
}

const width = 220
const height = 18

/** An effect in percent with its interval, on a scale around 0. */
export function Interval({ value, low, high, reach, good }: Props) {
  const at = (x: number) => width / 2 + (Math.max(-reach, Math.min(reach, x)) / reach) * (width / 2 - 6)
  const sure = low !== null && high !== null && (low > 0 || high < 0)
  const look = !sure || good === undefined ? 'unsure' : good ? 'good' : 'bad'
  const interval = low !== null && high !== null ? ` between ${formatPercent(low)} and ${formatPercent(high)}` : ''
  return (
    <svg className={`interval ${look}`} width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${formatPercent(value)}${interval}`}>
      <line className="zero" x1={width / 2} x2={width / 2} y1="0" y2={height} />
      {low !== null && high !== null && <line className="whisker" x1={at(low)} x2={at(high)} y1={height / 2} y2={height / 2} />}
      <circle cx={at(value)} cy={height / 2} r="4" />
    </svg>
  )
}
