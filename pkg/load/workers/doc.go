// Package workers shares one load between processes, on one machine or on several.
//
// One process is the coordinator. It writes a file that says where it listens. The others read
// that file, make the same requests from the same options, and wait. The coordinator compares
// its clock with theirs, lets all begin at one moment, and sends a share of the requests itself:
// all processes send about the same number, and have their part of the cap on concurrency. At the
// end it takes over their outcomes, with times by its own clock, and the result is computed from
// all of them. A cap that is divided is stricter than the cap of one process: with a rate, a
// request waits for a place of its own process, even if another process has one.
//
// Latencies are differences of times of one process. The comparison of clocks matters only for
// what spans processes, such as the duration and the requests in flight; [Coordinator.ClockError]
// says how far off it was before the load.
//
// If a process is lost, the load ends: what was measured is no longer the planned load.
package workers
