package answer

import (
	"errors"
	"syscall"
)

// A State says how far a request is.
type State byte

const (
	Unsent State = iota
	InFlight
	Completed
	Failed
	Interrupted
	Skipped // it was to follow one that failed
)

// An Outcome is what one request did. Times are readings of the run's clock in ns. It is
// written by one goroutine.
type Outcome struct {
	State   State
	Resends byte    // how often it was sent again: never if the server can have read the request
	Due     int64   // when the schedule wanted it sent
	Ready   int64   // when it could be sent: due, or later if the cap on concurrency held it back
	Start   int64   // when its first byte was first handed to an open connection
	End     int64   // when its answer had ended, or failed
	Tokens  []int64 // arrival of every token event; of a document, of its end
	Input   int     // prompt tokens by the server's usage; else by the client
	Output  int     // answer tokens by the server's usage; else the number of token events
	Usage   bool    // the server counted output; of a document, input
	Status  int     // of HTTP; 0 without an answer
	Lenient Leniency
	Text    string // the answer, if kept
	Err     string // why it failed, for people
}

// Refuse settles the outcome of a request that got no connection, at that time.
func (o *Outcome) Refuse(at int64, err error) {
	o.State, o.Err, o.Tokens, o.End = Failed, err.Error(), nil, at
	if errors.Is(err, syscall.EMFILE) {
		o.Err += " (raise the limit on open files: ulimit -n)"
	}
}

const nanos = 1e9 // of a second

// TTFT returns the time to the first token event, in seconds; of a completed request, like the
// times below.
func (o *Outcome) TTFT() float64 { return float64(o.Tokens[0]-o.Start) / nanos }

// Latency returns the time to the last token event, in seconds.
func (o *Outcome) Latency() float64 { return float64(o.Tokens[len(o.Tokens)-1]-o.Start) / nanos }

// TPOT returns the time per output token after the first, in seconds: 0 for an answer of one
// token, as vLLM counts it for goodput.
func (o *Outcome) TPOT() float64 {
	if o.Output < 2 {
		return 0
	}
	return (o.Latency() - o.TTFT()) / float64(o.Output-1)
}

// Gaps appends the times between token events, in seconds.
func (o *Outcome) Gaps(dst []float64) []float64 {
	for i := 1; i < len(o.Tokens); i++ {
		dst = append(dst, float64(o.Tokens[i]-o.Tokens[i-1])/nanos)
	}
	return dst
}

// Queued is how long the request waited in the client after it was due, in seconds.
func (o *Outcome) Queued() float64 { return float64(max(o.Start-o.Due, 0)) / nanos }
