// Package run is the life of a run between its plan and its result: the run directory,
// crash-safe submission, and the state of the job.
//
// Every event is a file in the run directory, written whole or not at all. So a command
// that is killed at any instruction loses nothing, and the next command continues. The
// package starts no process itself; a Scheduler does.
package run
