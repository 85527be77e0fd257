// Package failure says why a run failed: it looks for the lines that known
// failures print, and decides which of them is the cause.
//
// The table is data (signatures.json); a site can put its own entries in
// front. Scan reads one log on the node that owns it, Decide judges the
// reports of all logs and the job's end together. The package reads no file
// by itself and stops nothing.
//
//	table, err := failure.Builtin()
//	cause, err := table.Explain(logs, failure.Job{State: "FAILED", Ended: end})
package failure
