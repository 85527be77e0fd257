/** The run ids of runs in the store: it adds ~2 to that of another run that has the same. */
export function runIds(ids: string[]): string[] {
  return [...new Set(ids.map((id) => id.replace(/~\d+$/, '')))]
}
