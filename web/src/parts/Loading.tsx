/** Says what is awaited, after a moment: most answers come before. */
export function Loading({ what }: { what: string }) {
  return <p className="loading quiet" role="status">Loading {what}…</p>
}
