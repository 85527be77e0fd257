// Texts and values as the Go side of profllm orders and reads them.
import type { Value } from '../api'

/** The order of texts by their characters, which is that of their bytes in UTF-8. */
export function compareTexts(a: string, b: string): number {
  const n = Math.min(a.length, b.length)
  for (let i = 0; i < n; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x !== y) return place(x) - place(y)
  }
  return a.length - b.length
}

/** Halves of characters beyond U+FFFF stand behind all others. */
const place = (c: number) => (c >= 0xe000 ? c - 0x800 : c >= 0xd800 ? c + 0x2000 : c)

/** Numbers before texts; no value stands last. */
export function compareValues(a: Value, b: Value): number {
  const [x, y] = [rank(a), rank(b)]
  if (x !== y) return x - y
  if (typeof a === 'number') return a - (b as number)
  return a === null ? 0 : compareTexts(a, b as string)
}

const rank = (v: Value) => (typeof v === 'number' ? 0 : v === null ? 2 : 1)

/** Small letters, one for each character: no character depends on its neighbours. */
export function lower(s: string): string {
  if (/^[\x00-\x7f]*$/.test(s)) return s.toLowerCase()
  let out = ''
  for (const c of s) {
    const l = c.toLowerCase()
    out += String.fromCodePoint(l.codePointAt(0) as number)
  }
  return out
}

/** What a setting says: a number that is written in digits, or else a text. */
export function read(s: string): Value {
  if (s === '') return null
  if (s.length > 40 || !/^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(s)) return s
  const x = Number(s)
  return Number.isFinite(x) ? x + 0 : s
}

/** A value as text, a number in the fewest digits that give it back. */
export function written(v: Value): string {
  if (typeof v !== 'number') return v ?? ''
  if (v === 0) return '0'
  const [digits = '', e = '0'] = v.toExponential().split('e')
  const exponent = Number(e)
  if (exponent >= -4 && exponent < 6) return String(v)
  return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
}

/** A time in Unix milliseconds; undefined if the text is none. */
export function readTime(s: string): number | undefined {
  const m = /^(\d{4})-(\d\d)-(\d\d)(?:(T)|( )|$)(?:(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?)?(Z|[+-]\d\d:\d\d)?$/.exec(s)
  if (!m) return undefined
  const [, year, month, day, t, space, h, minute, second, fraction = '', zone] = m
  const clock = h !== undefined
  if (clock !== (t !== undefined || space !== undefined) || (zone !== undefined) !== (t !== undefined)) return undefined
  if (Number(day) > new Date(Date.UTC(2000 + (Number(year) % 400), Number(month), 0)).getUTCDate() || Number(month) < 1) return undefined
  if (Number(h ?? 0) > 23) return undefined
  const iso = `${year}-${month}-${day}T${clock ? `${h}:${minute}:${second}` : '00:00:00'}.${fraction.padEnd(3, '0').slice(0, 3)}${zone ?? 'Z'}`
  const ms = Date.parse(iso)
  return Number.isNaN(ms) ? undefined : ms
}
