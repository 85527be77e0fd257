// The look that all charts share. Colours are those of the page.
import type { Field } from '../api'
import { formatExact, formatNumber, formatTime, withUnit } from '../format'

export interface Look {
  text: string
  quiet: string
  line: string
  ground: string
  accent: string
  bad: string
  good: string
  series: string[]
  low: string // ends of a scale of numbers
  high: string
}

const light = ['#1a5f8a', '#c2561a', '#2f7d4f', '#8a3fa0', '#9a7a1c', '#b83a5e', '#3f8f95', '#6b5b4a']
const dark = ['#6fb4e0', '#eb9a63', '#74c692', '#c993dc', '#d8bb5f', '#ec8aa6', '#74c8ce', '#b5a18c']

/** Reads the colours of the theme in force. */
export function look(scheme: 'light' | 'dark'): Look {
  const style = getComputedStyle(document.documentElement)
  const v = (name: string) => style.getPropertyValue(name).trim()
  return {
    text: v('--text'), quiet: v('--quiet'), line: v('--line'), ground: v('--ground'), accent: v('--accent'),
    bad: v('--invalid'), good: v('--valid'), series: scheme === 'dark' ? dark : light,
    low: scheme === 'dark' ? '#3b4a8f' : '#9db9e8', high: scheme === 'dark' ? '#f2d06b' : '#5b1a4b',
  }
}

const font = { fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif', fontSize: 11 }

export function axis(l: Look, f: Field | undefined, log = false) {
  return {
    type: log ? 'log' : 'value', scale: true, name: f ? withUnit(f) : '', nameLocation: 'middle',
    nameTextStyle: { ...font, fontSize: 12, color: l.text },
    axisLabel: { ...font, color: l.quiet, formatter: (x: number) => formatNumber(Number(x.toPrecision(6))), hideOverlap: true },
    axisLine: { show: true, lineStyle: { color: l.line } }, axisTick: { show: false },
    splitLine: { lineStyle: { color: l.line, width: 0.6 } },
  }
}

export function timeAxis(l: Look) {
  return {
    type: 'time', axisLabel: { ...font, color: l.quiet, hideOverlap: true }, axisLine: { lineStyle: { color: l.line } },
    axisTick: { show: false }, splitLine: { show: false },
  }
}

export const labelFont = font

/** The box of a tooltip. Its content is made of elements: a strict policy refuses styled text. */
export function tooltip(l: Look) {
  return {
    confine: true, backgroundColor: l.ground, borderColor: l.line, borderWidth: 1, padding: 8, transitionDuration: 0,
    textStyle: { ...font, fontSize: 12, color: l.text }, extraCssText: 'box-shadow: var(--shadow)',
  }
}

/** A tooltip's content: a title, then names with values. */
export function tip(title: string, rows: [string, string][], note?: string): HTMLElement {
  const box = document.createElement('div')
  box.className = 'tip'
  const add = (tag: string, text: string, into: HTMLElement = box, name = '') => {
    const e = document.createElement(tag)
    e.textContent = text
    if (name) e.className = name
    into.append(e)
    return e
  }
  add('strong', title)
  const table = add('dl', '')
  for (const [name, value] of rows) {
    add('dt', name, table)
    add('dd', value, table)
  }
  if (note) add('p', note)
  return box
}

export function shown(v: unknown, f: Field | undefined): string {
  if (typeof v !== 'number') return v == null ? '–' : String(v)
  if (f?.kind === 'time') return formatTime(v)
  return f?.unit ? `${formatExact(Number(v.toPrecision(6)))} ${f.unit}` : formatExact(Number(v.toPrecision(6)))
}

/** A colour between two, t from 0 to 1. */
export function between(a: string, b: string, t: number): string {
  const part = (s: string, i: number) => Number.parseInt(s.slice(1 + 2 * i, 3 + 2 * i), 16)
  const mix = [0, 1, 2].map((i) => Math.round(part(a, i) + (part(b, i) - part(a, i)) * t))
  return `#${mix.map((x) => x.toString(16).padStart(2, '0')).join('')}`
}
