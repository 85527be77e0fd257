// The runs of a page as columns, each with the list of its different values.
import type { Field, Value } from '../api'
import { compareValues, lower } from './text'

/** A column as the page has it: each run's value, or its place in a list of values, counted from 1. */
export interface Packed {
  list?: Value[]
  values?: Value[]
  codes?: number[] // 0: no value; without codes, all runs have the only value
}

export class Column {
  readonly values: Value[] = [null] // the different ones, and null at 0
  readonly codes: Int32Array // of each run
  readonly numbers: number[] // the different ones, from the smallest
  readonly texts: number // how many different ones
  private ranks: Int32Array | undefined
  private lowered: (string | undefined)[] | undefined

  constructor(p: Packed | undefined, runs: number) {
    this.codes = new Int32Array(runs)
    if (p?.list) this.index(p.list)
    else if (p?.values) {
      this.values.push(...p.values)
      if (p.codes) this.codes.set(p.codes)
      else this.codes.fill(1)
    }
    this.numbers = this.values.filter((v) => typeof v === 'number').sort((a, b) => a - b)
    this.texts = this.values.length - 1 - this.numbers.length
  }

  private index(list: Value[]) {
    const places = new Map<Value, number>([[null, 0]])
    list.forEach((v, i) => {
      let code = places.get(v)
      if (code === undefined) {
        code = this.values.push(v) - 1
        places.set(v, code)
      }
      this.codes[i] = code
    })
  }

  of(run: number): Value {
    return this.values[this.codes[run] as number] as Value
  }

  /** The place of each value in their order. */
  order(): Int32Array {
    if (!this.ranks) {
      const ranks = new Int32Array(this.values.length)
      const sorted = [...this.values.keys()].sort((a, b) => compareValues(this.values[a] as Value, this.values[b] as Value))
      sorted.forEach((code, i) => {
        ranks[code] = i
      })
      this.ranks = ranks
    }
    return this.ranks
  }

  /** The texts in small letters; undefined for what is none. */
  small(): (string | undefined)[] {
    this.lowered ??= this.values.map((v) => (typeof v === 'string' ? lower(v) : undefined))
    return this.lowered
  }
}

/** The columns of a page, made when they are first asked for. */
export class Columns {
  readonly runs: number
  readonly names: string[]
  private packed: Map<string, Packed>
  private made = new Map<string, Column>()

  constructor(fields: Field[], packed: Packed[], runs: number) {
    this.runs = runs
    this.names = fields.map((f) => f.name)
    this.packed = new Map(fields.map((f, i) => [f.name, packed[i] as Packed]))
  }

  get(name: string): Column {
    let c = this.made.get(name)
    if (!c) {
      c = new Column(this.packed.get(name), this.runs)
      this.made.set(name, c)
    }
    return c
  }
}
