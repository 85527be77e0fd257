import type { Experiment } from '../api'
import { formatBytes, plural } from '../format'

/** The run's folder, with the files in it that are known. */
export function Folder({ e }: { e: Experiment }) {
  const files = e.files ?? []
  const count = `${e.more_files ? 'the first ' : ''}${plural(files.length, 'file')}`
  return (
    <section>
      <h2>Folder</h2>
      <p>{e.link ? <a href={e.link}><code className="wrap">{e.dir}</code></a> : <code className="wrap">{e.dir}</code>}</p>
      {files.length > 0 && (
        <details className="below" open={files.length <= 12}>
          <summary>{count}, {formatBytes(files.reduce((n, f) => n + f.size, 0))}</summary>
          <table className="list files">
            <thead><tr><th scope="col">File</th><th scope="col" className="num">Size</th></tr></thead>
            <tbody>{files.map((f) => <tr key={f.name}><td className="wrap">{f.name}</td><td className="num">{formatBytes(f.size)}</td></tr>)}</tbody>
          </table>
        </details>
      )}
    </section>
  )
}
