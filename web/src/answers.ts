// The shapes of the HTTP API: what the page sends, and what the server answers.

export type Value = number | string | null

export type Group =
  | 'run' | 'validity' | 'placement' | 'hardware' | 'software' | 'engine' | 'load' | 'setting' | 'metric'

export interface Field {
  name: string
  group: Group
  kind: 'text' | 'number' | 'time'
  title?: string
  help?: string
  unit?: string
  better?: 'higher' | 'lower' | ''
  free?: boolean
  runs: number
  distinct: number
  min?: number | null
  max?: number | null
}

export interface Options {
  runs: number
  fields: Field[]
  defaults: { facets: string[]; metrics: string[]; columns: string[] }
  demo?: boolean
  readonly?: boolean
  auth?: boolean
}

export interface Condition {
  field?: string
  in?: Value[]
  contains?: string
  min?: number | string
  above?: number | string
  max?: number | string
  below?: number | string
  has?: boolean
}

export interface Filter extends Condition {
  and?: Filter[]
  or?: Filter[]
  not?: Filter
  text?: string
}

export interface Order {
  field: string
  descending?: boolean
}

export interface Query {
  filter?: Filter
  facets?: string[]
  within?: boolean // facets count only runs that meet all of the filter
  metrics?: string[]
  rows?: { fields: string[]; sort?: Order[]; offset?: number; limit: number }
}

export interface Count {
  value: Value
  runs: number
}

export interface Histogram {
  min: number
  max: number
  runs: number[]
}

export interface FacetAnswer {
  field: string
  values?: Count[]
  others?: number
  missing?: number
  histogram?: Histogram
}

export interface Stats {
  field: string
  runs: number
  min: number | null
  max: number | null
  mean: number | null
}

export interface Rows {
  ids: string[]
  fields: string[]
  columns: Value[][]
}

export interface Answer {
  runs: number
  matches: number
  facets?: FacetAnswer[]
  metrics?: Stats[]
  rows?: Rows
  took_ms?: number
}

export interface Preset {
  name: string
  filter: Filter | null
  view?: unknown // a query string of the page
}

export interface Unlike {
  field: string
  first: string
  second: string
}

export interface Spread {
  n: number
  median: number | null
  low: number | null
  high: number | null
  cv_percent: number | null
}

export interface MetricHead {
  key: string
  name: string
  unit?: string
  better?: 'higher' | 'lower' | ''
}

export interface TrendCut {
  index: number
  verdict: string
  why?: string
  shift_percent: number | null
  low_percent: number | null
  high_percent: number | null
  p: number
  adjusted_p: number
  differs?: Unlike[]
}

export interface MetricTrend extends MetricHead {
  verdict: string
  why?: string
  level: Spread
  points: { time: string; runs: string[]; value: number }[] | null
  cuts?: TrendCut[]
  starts_needed?: number
  starts_without?: number
}

export interface Trend {
  test: string
  key: string
  by?: { key: string; value: string }[]
  kind?: string
  verdict: string
  runs: number
  starts: number
  mixed_hardware?: string[]
  metrics: MetricTrend[]
}

/** Words of a report, the most important first. */
export interface Paragraph {
  heading: string
  lines: string[] | null
}

export interface Trends {
  said: Paragraph[] | null
  report: { trends?: Trend[] | null; left_out?: { dir: string; why: string }[] | null }
  starts: ({ id: string; time: number }[] | null)[] | null // of each trend
}

export interface Setting {
  key: string
  value: string
}

export interface Impact {
  key: string
  field: string // by which runs with these values are filtered
  from: string // "" where it was not set
  to: string
  pairs: number
  percent: number
  low_percent: number | null
  high_percent: number | null
  coverage?: number
  p: number | null
  certainty: 'shown' | 'not shown' | 'too little data'
  better: boolean
  runs: [string, string]
}

export interface Impacts {
  metric: MetricHead
  kind?: string
  runs: number
  leftout: number
  impacts: Impact[] | null
  together?: string[]
  not_above_0?: string[]
}

export interface Scaling {
  settings: Setting[] | null
  points: { gpus: number; value: number; efficiency: number; low_load?: boolean; layout: Setting[] | null; run: string; of: number }[]
}

/** The configurations that were measured on several numbers of GPUs. */
export interface Scalings {
  metric: MetricHead
  kind?: string
  scalings: Scaling[] | null
}

export interface Plan {
  settings: Setting[] | null
  load: Setting[] | null
  run: string
  value: number
  per_gpu: number | null
  gpus: number
  copies?: number
  total_gpus?: number
  limits: { metric: MetricHead; value: number; measured: number }[] | null
  runs: number
  beyond: number
  highest: boolean
}

export interface Capacity {
  kind?: string
  metric: MetricHead
  target?: number
  plans: Plan[] | null
  beyond?: (Setting[] | null)[]
}

/** At most, or at least where more is better. */
export interface Limit {
  field: string
  value: number
}

export interface MetricVerdict extends MetricHead {
  verdict: string
  why?: string
  first: Spread
  second: Spread
  shift_percent: number | null
  low_percent: number | null
  high_percent: number | null
  p: number | null
  runs_needed?: number
}

export interface Judgement {
  test: string
  verdict: string
  kind?: string
  first: { name?: string } // as the question calls it
  second: { name?: string }
  not_comparable?: Unlike[]
  differs?: Unlike[]
  not_causal?: boolean
  metrics?: MetricVerdict[]
  runs_needed?: number
  commands?: string[]
}

/** A number, null, or "withheld". */
export type Measured = number | string | null

export interface MetricRow extends MetricHead {
  values: Measured[]
  difference?: { absolute: number; percent?: number }
}

export interface Comparison {
  group: string
  kind?: string
  columns: {
    name: string
    label: string
    difference?: { key: string; value: string }[] | null
    verdict: string
    dir: string
  }[] | null
  sections: { name: string; rows: MetricRow[] | null }[] | null
}

export interface Delta {
  same_configuration: boolean
  causal?: string
  groups: { name: string; same: number; differs: Unlike[] | null }[]
  numbers: MetricRow[] | null
}

export interface Compared {
  said: Paragraph[] | null
  ids: Record<string, string> | null // of the store, by the folders that the report names
  report: {
    judgements?: Judgement[] | null
    comparisons?: Comparison[] | null
    runs?: { label: string; dir: string; run_id?: string; verdict: string; kind?: string; reason?: string; usable: boolean }[] | null
    notes?: string[] | null
  } | null
  diff?: Delta | null
}

export interface Check {
  word: string
  outcome: string
  severity: string
  detail: string
  why: string
}

export interface Failure {
  cause: string
  kind?: string
  about?: string
  line?: string
  file?: string
  line_number?: number
  role?: string
  node?: string
  rank?: string
  next: string
  confidence: string
  tail?: string[]
}

export interface RunRecord {
  run_id: string
  suite: string
  timestamp: string
  duration?: number
  status: string
  simulated?: boolean
  simulated_speed?: number
  validity?: { verdict: string; words?: string[]; withheld?: string[]; checks?: Check[] | null }
  failure?: Failure
  results?: Record<string, unknown>
  system?: Record<string, unknown>
}

export interface Experiment {
  id: string
  title: string
  dir: string
  link?: string // to the folder, from a page that is a file
  problem?: string // why there is no record
  record: RunRecord
  settings: Record<string, string> | null
  values: Record<string, Value> | null
  files?: { name: string; size: number }[] | null
  more_files?: boolean
}

export interface Track {
  name: string
  unit?: string
  of: string
  node?: string
  times: number[] // Unix ms
  values: (number | null)[]
}

export interface OverTime {
  tracks: Track[] | null
  phases?: { Name: string; Begin: number; End: number }[] | null
  problems?: string[] | null
}

export interface Trace {
  kind: string
  path: string
  size_mb?: number
}

export interface UploadFile {
  name: string
  outcome?: Record<string, number> // runs, by what the store did with them
  runs?: string[]
  error?: string
  notes?: string[]
}

export interface UploadJob {
  job_id: string
  state: 'queued' | 'running' | 'waiting' | 'failed' | 'done'
  done: number
  total: number
  files: UploadFile[] | null
  trouble?: string // of the server
  next_try?: string
}
