// The HTTP API: one function for each path.
import {
  Problem, type Answer, type Capacity, type Compared, type Experiment, type Filter, type Impacts, type Options, type Order,
  type OverTime, type Preset, type Query, type Scalings, type Trace, type Trends, type UploadJob,
} from './api'

interface ProblemJSON {
  title?: string
  detail?: string
  errors?: { message?: string; location?: string }[]
}

async function refused(response: Response): Promise<Problem> {
  const text = await response.text()
  try {
    const p = JSON.parse(text) as ProblemJSON
    const details = (p.errors ?? []).map((e) => (e.location ? `${e.location}: ${e.message}` : (e.message ?? '')))
    return new Problem(response.status, p.detail || p.title || response.statusText, details)
  } catch {
    return new Problem(response.status, text.slice(0, 300) || response.statusText, [])
  }
}

/** The token of the server. It is kept for the session of the tab only. */
export const token = {
  get: () => sessionStorage.getItem('token') ?? '',
  set: (t: string) => sessionStorage.setItem('token', t),
}

async function call(path: string, init?: RequestInit): Promise<Response> {
  const headers = new Headers(init?.headers)
  if (token.get()) headers.set('Authorization', `Bearer ${token.get()}`)
  let response: Response
  try {
    response = await fetch(path, { ...init, headers })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new Problem(0, 'The server does not answer.', ['Check that "profllm dashboard serve" is running, then retry.'])
  }
  if (!response.ok) throw await refused(response)
  return response
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await call(path, { signal })).json()) as T
}

function send(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return call(path, { method: 'POST', signal, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })
}

async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await (await send(path, body, signal)).json()) as T
}

const one = encodeURIComponent

export const server = {
  options: async (s?: AbortSignal): Promise<Options> => {
    const o = await get<Options>('api/filters/options', s)
    const { facets, metrics, columns } = o.defaults
    return { ...o, fields: o.fields ?? [], defaults: { facets: facets ?? [], metrics: metrics ?? [], columns: columns ?? [] } }
  },
  apply: (q: Query, s?: AbortSignal) => post<Answer>('api/filters/apply', q, s),
  presets: (s?: AbortSignal) => get<{ presets: Preset[] | null }>('api/filters/presets', s),
  savePreset: (p: Preset) => send('api/filters/presets', p),
  deletePreset: (name: string) => call(`api/filters/presets/${one(name)}`, { method: 'DELETE' }),
  experiment: (id: string, s?: AbortSignal) => get<Experiment>(`api/data/experiments/${one(id)}`, s),
  series: (id: string, s?: AbortSignal) => get<OverTime>(`api/data/experiments/${one(id)}/series`, s),
  traces: (id: string, s?: AbortSignal) => get<{ traces: Trace[] | null }>(`api/export/traces/${one(id)}`, s),
  compare: (body: { runs?: string[]; a?: Filter; b?: Filter; names?: [string, string] }, s?: AbortSignal) =>
    post<Compared>('api/data/compare', body, s),
  trends: (body: { filter?: Filter; metrics: string[]; by?: string[] }, s?: AbortSignal) =>
    post<Trends>('api/analysis/trends', body, s),
  impact: (body: { filter?: Filter; metric: string }, s?: AbortSignal) => post<Impacts>('api/analysis/impact', body, s),
  scaling: (body: { filter?: Filter; metric: string }, s?: AbortSignal) =>
    post<Scalings>('api/analysis/scaling', body, s),
  capacity: (body: { filter?: Filter; metric: string; target?: number; limits: string[] }, s?: AbortSignal) =>
    post<Capacity>('api/analysis/capacity', body, s),
  pareto: (body: { filter?: Filter; x: string; y: string }, s?: AbortSignal) =>
    post<{ ids: string[] | null; kind: string }>('api/analysis/pareto', body, s),
  saved: async (format: 'csv' | 'json', body: { filter?: Filter; fields?: string[]; sort?: Order[] }) =>
    (await send(`api/export/${format}`, body)).blob(),
  uploadStatus: (id: string, s?: AbortSignal) => get<UploadJob>(`api/upload/status/${one(id)}`, s),
  traceURL: (id: string, path: string) => `api/export/traces/${one(id)}?path=${one(path)}`,
  trace: async (url: string) => (await call(url)).blob(),
}

/** Uploads files in one request, and reports the share of bytes that were sent. */
export function upload(files: File[], sent: (share: number) => void): Promise<UploadJob> {
  const form = new FormData()
  for (const f of files) form.append('file', f, f.webkitRelativePath || f.name)
  const request = new XMLHttpRequest() // fetch does not report how much was sent
  return new Promise((resolve, reject) => {
    request.open('POST', files.length === 1 ? 'api/upload/json' : 'api/upload/batch')
    if (token.get()) request.setRequestHeader('Authorization', `Bearer ${token.get()}`)
    request.upload.onprogress = (e) => sent(e.lengthComputable ? e.loaded / e.total : 0)
    request.onerror = () => reject(new Problem(0, 'The connection broke during the upload.', ['Upload the files again: what is stored already is not stored twice.']))
    request.onload = () => {
      if (request.status < 300) resolve(JSON.parse(request.responseText) as UploadJob)
      else void refused(new Response(request.responseText, { status: request.status, statusText: request.statusText })).then(reject)
    }
    request.send(form)
  })
}
