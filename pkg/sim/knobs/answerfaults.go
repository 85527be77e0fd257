package knobs

import (
	"fmt"
	"slices"
	"strconv"
)

// AnswerFaults spoil answers that the engine made well: what a server, or a machine between
// server and client, gets wrong on the wire. Most are the share of generation requests that one
// kind meets.
type AnswerFaults struct {
	share    map[string]float64 // by the name of the fault
	Usage    float64            // factor of the completion tokens that the client is told; 0: honest
	Finish   string             // the finish reason that the client is told; empty: the truth
	NoParams bool               // no kv_transfer_params
	NoUsage  bool               // no usage
	NoDone   bool               // the stream ends without [DONE]
}

// spoiltOnWire lists the faults that an answer meets on the wire, of which each answer has the
// first that is drawn.
var spoiltOnWire = []string{"drop", "cut", "error-event", "error-usage", "garbage", "html"}

// spoilt lists the faults that are a share of requests, in the order in which they are drawn.
var spoilt = slices.Concat(spoiltOnWire, []string{"short", "recompute"})

// answerFaultNames lists all of them.
var answerFaultNames = slices.Concat(spoilt, []string{"usage", "finish", "no-params", "no-usage", "no-done"})

func (f *AnswerFaults) set(name, value string) error {
	var err error
	switch name {
	case "usage":
		if f.Usage, err = strconv.ParseFloat(value, 64); err != nil || !(f.Usage > 0 && f.Usage <= 1000) {
			return fmt.Errorf("usage=%q: want a factor, such as 1.1", value)
		}
		return nil
	case "finish":
		if f.Finish = value; value == "" {
			return fmt.Errorf("finish wants a value, such as abort")
		}
		return nil
	case "no-params", "no-usage", "no-done":
		if value != "" {
			return fmt.Errorf("%s takes no value, got %q", name, value)
		}
		*map[string]*bool{"no-params": &f.NoParams, "no-usage": &f.NoUsage, "no-done": &f.NoDone}[name] = true
		return nil
	}
	x, err := parseShare(value)
	if err != nil {
		return fmt.Errorf("%s=%q: want a number from 0 to 1", name, value)
	}
	if f.share == nil {
		f.share = map[string]float64{}
	}
	f.share[name] = x
	return nil
}

// Hits reports whether a share of the requests includes the nth.
func (f *AnswerFaults) Hits(name string, seed, n uint64) bool {
	return f.share[name] > 0 && Unit(Mix(seed, uint64(slices.Index(spoilt, name))), n) < f.share[name]
}

// Of returns the fault that the nth request meets on the wire, "" if its answer arrives whole.
func (f *AnswerFaults) Of(seed, n uint64) string {
	for _, name := range spoiltOnWire {
		if f.Hits(name, seed, n) {
			return name
		}
	}
	return ""
}
