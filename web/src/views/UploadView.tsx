import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import type { UploadFile, UploadJob } from '../api'
import { useKnown } from '../data'
import { formatBytes, formatTime, plural, withHints } from '../format'
import { server, upload } from '../http'
import { RunLink } from '../parts/RunLink'
import { Token } from '../parts/Token'
import { Trouble } from '../parts/Trouble'

/** Takes records and archives, and says what became of each. */
export function UploadView() {
  const { options } = useKnown()
  const [jobs, setJobs] = useState<string[]>([])
  if (options.readonly) return <p className="pad">This server is read-only and takes no uploads.</p>
  return (
    <section className="view" aria-label="Upload">
      <div className="scroll pad-x">
        {options.auth && <Token />}
        <Drop started={(id) => setJobs((list) => [id, ...list])} />
        {jobs.map((id) => <Job key={id} id={id} />)}
      </div>
    </section>
  )
}

function Drop({ started }: { started: (id: string) => void }) {
  const [over, setOver] = useState(false)
  const [sending, setSending] = useState<{ files: File[]; share: number }>()
  const [error, setError] = useState<Error>()
  const input = useRef<HTMLInputElement>(null)
  const send = async (files: File[]) => {
    if (files.length === 0 || sending) return
    setError(undefined)
    setSending({ files, share: 0 })
    try {
      started((await upload(files, (share) => setSending({ files, share }))).job_id)
    } catch (e) {
      setError(e instanceof Error ? e : new Error(String(e)))
    }
    setSending(undefined)
  }
  const size = sending?.files.reduce((n, f) => n + f.size, 0) ?? 0
  return (
    <>
      <div
        className={over ? 'drop over' : 'drop'}
        onDragOver={(e) => {
          e.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(e) => {
          e.preventDefault()
          setOver(false)
          void dropped(e.dataTransfer).then(send)
        }}
      >
        <p className="lead">Drop files or folders here</p>
        <p className="quiet">Records (result.json), results of other programs, and archives (.tar.xz) of run folders. Runs that are stored already are not stored twice.</p>
        <input
          ref={input} type="file" multiple className="sr" aria-label="Files to upload" tabIndex={-1}
          onChange={(e) => {
            void send([...(e.currentTarget.files ?? [])])
            e.currentTarget.value = ''
          }}
        />
        <Button size="xs" loading={sending !== undefined} onClick={() => input.current?.click()}>Choose files</Button>
        {sending && (
          <p role="status">
            Sending {plural(sending.files.length, 'file')}, {formatBytes(size)}: {Math.round(sending.share * 100)} %
            <progress value={sending.share} aria-label="Sent" />
          </p>
        )}
      </div>
      {error && <Trouble error={error} />}
    </>
  )
}

/** The files that were dropped, those in folders too. */
async function dropped(data: DataTransfer): Promise<File[]> {
  const entries = [...data.items].map((i) => i.webkitGetAsEntry()).filter((e) => e !== null)
  if (entries.length === 0) return [...data.files]
  const lists = await Promise.all(entries.map(filesOf))
  return lists.flat()
}

async function filesOf(entry: FileSystemEntry): Promise<File[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject))
    return [new File([file], entry.fullPath.replace(/^\//, ''), { type: file.type })]
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader()
  const files: File[] = []
  for (;;) { // a reader gives its entries in parts
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (part.length === 0) return files
    for (const e of part) files.push(...(await filesOf(e)))
  }
}

// How long until the state of an upload is asked for again.
const pause: Record<UploadJob['state'], number | false> = { queued: 400, running: 400, waiting: 5000, failed: false, done: false }

function Job({ id }: { id: string }) {
  const client = useQueryClient()
  const got = useQuery({
    queryKey: ['upload', id], queryFn: ({ signal }) => server.uploadStatus(id, signal), staleTime: 0,
    refetchInterval: (q) => pause[q.state.data?.state ?? 'queued'],
  })
  const done = got.data?.state === 'done'
  useEffect(() => {
    if (done) void client.invalidateQueries({ predicate: (q) => q.queryKey[0] !== 'upload' })
  }, [done, client])
  if (got.error) return <Trouble error={got.error} retry={() => void got.refetch()} />
  if (!got.data) return null
  const { files, total } = got.data
  const sum = totals(files ?? [])
  return (
    <section className="job">
      <h2 aria-live="polite">{done ? said(sum) : pending(got.data)}</h2>
      {got.data.trouble && <p className="bad wrap">{got.data.trouble}</p>}
      {!done && <progress value={total ? got.data.done / total : 0} aria-label="Read" />}
      <div className="scroll-x">
        <table className="list">
          <thead><tr><th scope="col">File</th><th scope="col">Outcome</th><th scope="col">Runs</th></tr></thead>
          <tbody>{(files ?? []).map((f, i) => <OneFile key={i} f={f} />)}</tbody>
        </table>
      </div>
    </section>
  )
}

const looks: Record<string, string> = { stored: 'valid', updated: 'valid', duplicate: 'other', unchanged: 'other', refused: 'invalid' }

function OneFile({ f }: { f: UploadFile }) {
  const outcomes = Object.entries(f.outcome ?? {}).filter(([, n]) => n > 0)
  return (
    <tr>
      <th scope="row" className="wrap">{f.name}</th>
      <td>
        <span className="badges">
          {outcomes.map(([word, n]) => <span key={word} className={`badge ${looks[word] ?? 'other'}`}>{n === 1 ? word : `${n} ${word}`}</span>)}
          {f.error && <span className="badge invalid">refused</span>}
          {outcomes.length === 0 && !f.error && <span className="badge other">no runs</span>}
        </span>
        {f.error && reason(f).map((line) => <p key={line} className="bad wrap">{line}</p>)}
        {f.notes?.map((n) => <p key={n} className="quiet wrap">{n}</p>)}
      </td>
      <td>{(f.runs ?? []).slice(0, 5).map((id) => <div key={id}><RunLink id={id}>{id}</RunLink></div>)}{(f.runs?.length ?? 0) > 5 && <span className="quiet">and {(f.runs?.length ?? 0) - 5} more</span>}</td>
    </tr>
  )
}

/** Why a file was refused, without its name, which is beside it. */
const reason = (f: UploadFile) => withHints((f.error ?? '').replace(`${f.name}: `, ''))

function totals(files: UploadFile[]): Map<string, number> {
  const sum = new Map<string, number>()
  for (const f of files) {
    for (const [word, n] of Object.entries(f.outcome ?? {})) sum.set(word, (sum.get(word) ?? 0) + n)
    if (f.error) sum.set('refused', (sum.get('refused') ?? 0) + 1)
  }
  return sum
}

function pending({ state, done, total, next_try }: UploadJob): string {
  if (state === 'failed') return 'Given up until the server starts again. The server keeps the files.'
  if (state !== 'waiting') return `Reading: ${done} of ${plural(total, 'file')}`
  return `Waiting: the server is in trouble and tries again${next_try ? ` at ${formatTime(Date.parse(next_try))}` : ''}`
}

function said(sum: Map<string, number>): string {
  const text = [...sum].filter(([, n]) => n > 0).map(([word, n]) => `${n} ${word}`).join(', ')
  return text ? `Done: ${text}` : 'Done: no runs in these files'
}
