package failure

import (
	"slices"
	"strings"
)

// The places that a request passes, the first one last: what went wrong in one of
// them shows in those behind it.
const (
	inService = iota
	inProxy
	inClient
)

// place is where a clue was seen. Whose log it stands in decides; the log of a job, and
// one of an unknown role, hold the words of all.
func (c clue) place() int {
	conditions := Conditions(c.report.Role)
	switch {
	case slices.Contains(conditions, "client"), c.Quoted:
		return inClient
	case slices.Contains(conditions, "proxy"):
		return inProxy
	case slices.Contains(conditions, "server"):
		return inService
	case c.Area == "client":
		return inClient
	case c.Area == "proxy":
		return inProxy
	}
	return inService
}

// insideService reports whether a clue comes from the service, not from who
// talks to it or waits for it.
func (c clue) insideService() bool { return c.place() == inService && c.entry.ID != deadline }

// hidden returns what servers answered, if a proxy or a client tells of a failure
// without saying which: a proxy's 502 hides its backend's 404.
func hidden(clues []clue) []clue {
	if !slices.ContainsFunc(clues,
		func(c clue) bool { return c.kind == Symptom && slices.Contains(hiding, c.entry.ID) }) {
		return nil
	}
	return only(clues, Answer)
}

// hiding are complaints about the answer of something behind, and vague those that say
// less than any other of the same log.
var (
	hiding = []string{"proxy-5xx", "proxy-upstream", "backend-failed", "client-server-error"}
	vague  = append([]string{deadline, ownMessage, "client-all-failed", "client-none-completed",
		"client-server-never-ready", "guidellm-backend", "aiperf-not-ready", noRecords}, hiding...)
)

// mayPrecede reports whether clocks, missing stamps, or stamps that are only a lower
// bound leave open that a clue came before one of another file.
func (c clue) mayPrecede(d clue) bool {
	if c.order == d.order {
		return false
	}
	if c.at.IsZero() || d.at.IsZero() || (c.at.Year() == 0) != (d.at.Year() == 0) || d.Since {
		return true
	}
	return c.at.Sub(d.at) <= skew
}

// saysMore reports whether a clue says more than one before it in the same log: the
// reason of a vague complaint, or the end that followed a warning.
func (c clue) saysMore(d clue) bool {
	if c.order != d.order || c.Passing || slices.Contains(vague, c.entry.ID) {
		return false
	}
	return slices.Contains(vague, d.entry.ID) || d.Passing
}

// explains says which failures bring about which others elsewhere.
func (c clue) explains(d clue) bool {
	fatal := slices.Contains([]string{"gpu-memory", "host-memory", "gpu", "shm"}, c.Area) || c.entry.ID == "segfault"
	consequence := slices.Contains([]string{"nccl", "ray", "client", "proxy", "services"}, d.Area) ||
		slices.Contains([]string{"nixl-backend", "kv-transfer-failed", deadline}, d.entry.ID)
	switch {
	case fatal && consequence:
		return true
	case d.entry.ID == generic && d.place() <= c.place():
		return c.kind == Root && c.entry.Kind == Root
	case strings.HasPrefix(c.entry.ID, "rdma-") || c.entry.ID == "ucx-unreachable":
		return strings.HasPrefix(d.entry.ID, "nixl-") || d.entry.ID == "kv-transfer-failed"
	case d.entry.ID == deadline:
		return true
	case d.entry.ID == noRecords: // AIPerf's file of requests says why
		return c.entry.ID != noRecords
	}
	return c.place() < d.place()
}

// noRecords is the id of AIPerf's word that no request succeeded.
const noRecords = "aiperf-no-records"

// ofRequests are what a proxy or a client says of single requests that failed.
var ofRequests = []string{"backend-failed", "client-bad-answer", "client-disconnected", "client-server-error",
	"client-timeout", "dynamo-no-worker", "dynamo-request-failed", "dynamo-stream-lost"}

// OfRequests reports whether a cause says no more than that single requests failed.
func OfRequests(cause string) bool { return slices.Contains(ofRequests, cause) }
