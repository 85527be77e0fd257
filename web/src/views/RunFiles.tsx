import { useQuery } from '@tanstack/react-query'
import { useMemo, useState, type MouseEvent } from 'react'
import { Problem, type OverTime, type Track } from '../api'
import { Chart } from '../charts/Chart'
import { look } from '../charts/look'
import { overTimeOption, trackColour, trackName } from '../charts/overtime'
import { formatBytes, plural } from '../format'
import { server, token } from '../http'
import { Loading } from '../parts/Loading'
import { Trouble } from '../parts/Trouble'
import { download } from './TableView'

const capital = (s: string) => s.charAt(0).toUpperCase() + s.slice(1)
const gone = (error: Error | null) => error instanceof Problem && error.status === 404

/** What engines, GPUs and nodes did over time. Runs whose files are elsewhere have none. */
export function OverTimeCharts({ id, scheme }: { id: string; scheme: 'light' | 'dark' }) {
  const got = useQuery({ queryKey: ['series', id], queryFn: ({ signal }) => server.series(id, signal), retry: false })
  const groups = useMemo(() => {
    const map = new Map<string, Track[]>()
    for (const t of got.data?.tracks ?? []) {
      if (t.times.length > 1) map.set(t.name, [...(map.get(t.name) ?? []), t])
    }
    return [...map]
  }, [got.data])
  return (
    <section>
      <h2>Over time</h2>
      {got.isLoading && <Loading what="the samples" />}
      {gone(got.error) && <p className="quiet">{capital((got.error as Error).message)}.</p>}
      {got.error && !gone(got.error) && <Trouble error={got.error} />}
      {got.data && groups.length === 0 && <p className="quiet">Neither engines, GPUs nor nodes were sampled.</p>}
      {got.data && <div className="small-charts">{groups.map(([name, tracks]) => <Group key={name} name={name} tracks={tracks} all={got.data} scheme={scheme} />)}</div>}
      {got.data?.problems?.map((p) => <p key={p} className="quiet">{p}</p>)}
    </section>
  )
}

function Group({ name, tracks, all, scheme }: { name: string; tracks: Track[]; all: OverTime; scheme: 'light' | 'dark' }) {
  const colours = look(scheme)
  const option = useMemo(() => overTimeOption(tracks, all, look(scheme)), [tracks, all, scheme])
  const unit = tracks[0]?.unit
  return (
    <figure>
      <figcaption>{name}{unit && <span className="quiet"> {unit}</span>}</figcaption>
      <Chart option={option} height={170} label={`${name} over time, ${plural(tracks.length, 'line')}`} />
      <p className="legend quiet">
        {tracks.slice(0, most).map((t, i) => <span key={trackName(t)}><i style={{ background: trackColour(i, colours) }} />{trackName(t)}</span>)}
        {tracks.length > most && <span>and {tracks.length - most} more</span>}
      </p>
    </figure>
  )
}

const most = 8 // lines that are named below a chart

/** Traces that a profiler left. */
export function Traces({ id }: { id: string }) {
  const got = useQuery({ queryKey: ['traces', id], queryFn: ({ signal }) => server.traces(id, signal), retry: false })
  const list = got.data?.traces ?? []
  if (list.length === 0) return null
  return (
    <section>
      <h2>Traces</h2>
      <ul className="lines">
        {list.map((t) => (
          <li key={t.path}>
            <TraceLink url={server.traceURL(id, t.path)} path={t.path} /> <span className="quiet">{t.kind}{t.size_mb !== undefined && `, ${formatBytes(t.size_mb * 1e6)}`}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** A link cannot send a token: with one, the page fetches the trace. */
function TraceLink({ url, path }: { url: string; path: string }) {
  const [error, setError] = useState<Error>()
  const fetched = (e: MouseEvent) => {
    if (!token.get()) return
    e.preventDefault()
    server.trace(url).then((blob) => download(blob, path.slice(path.lastIndexOf('/') + 1)), setError)
  }
  return <><a href={url} download onClick={fetched}>{path}</a>{error && <Trouble error={error} />}</>
}
