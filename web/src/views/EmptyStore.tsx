import { useKnown } from '../data'
import { follow } from '../Head'
import { link } from '../state'

/** What to do with a store that has no runs. */
export function EmptyStore() {
  const { options } = useKnown()
  return (
    <main className="alone" id="main">
      <h1>The store is empty</h1>
      <p>Fill it in one of three ways. The page shows the runs after a reload.</p>
      <ol className="ways">
        <li>
          <h2>From a results folder</h2>
          <pre><code>profllm collect results/ --store profllm.db</code></pre>
          <p className="quiet">Name the store file that the dashboard was started with. Running the command again adds new runs only.</p>
        </li>
        <li>
          <h2>In the browser</h2>
          {options.readonly
            ? <p className="quiet">This server is read-only and takes no uploads.</p>
            : <p><a href={link({ view: 'upload' })} onClick={(e) => follow(e, { view: 'upload' })}>Upload records</a> or archives of whole result folders.</p>}
        </li>
        <li>
          <h2>With simulated data</h2>
          <pre><code>profllm dashboard serve --demo</code></pre>
          <p className="quiet">Shows every view with made-up numbers, which are labelled as such.</p>
        </li>
      </ol>
    </main>
  )
}
