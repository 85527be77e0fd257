package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/load/answer"
)

// A Line is what --save-requests writes of one request. Times are in s from the start of the run,
// as duration counts it; those of what did not happen are absent.
type Line struct {
	Request      int     `json:"request"` // its place in the load, from 0
	ID           string  `json:"id"`      // x-request-id
	Model        string  `json:"model"`
	State        string  `json:"state"`                  // completed, failed, interrupted, unsent, skipped
	Status       int     `json:"http_status,omitempty"`  // 0 without an answer
	Error        string  `json:"error,omitempty"`        // why it failed
	Conversation *int    `json:"conversation,omitempty"` // from 0
	Turn         *int    `json:"turn,omitempty"`         // from 1
	Due          *number `json:"due_s,omitempty"`        // when the schedule wanted it sent
	Sent         *number `json:"sent_s,omitempty"`
	SentAt       string  `json:"sent_at,omitempty"` // the same by the clock of the machine
	FirstToken   *number `json:"first_token_s,omitempty"`
	LastToken    *number `json:"last_token_s,omitempty"`
	Ended        *number `json:"ended_s,omitempty"` // when its answer had ended, or it failed
	Input        *int    `json:"input_tokens,omitempty"`
	Output       *int    `json:"output_tokens,omitempty"`
	Resent       int     `json:"resent,omitempty"` // how often it was sent again
	// Arrival of every token event, with --save-detailed.
	Tokens []number `json:"token_events_s,omitempty"`
}

var stateNames = map[answer.State]string{
	answer.Completed: "completed", answer.Failed: "failed", answer.Interrupted: "interrupted",
	answer.InFlight: "interrupted", answer.Unsent: "unsent", answer.Skipped: "skipped",
}

// line returns what is written of request i.
func (m *measurement) line(i int, requests traffic) *Line {
	o := &m.outcomes[i]
	at := func(ns int64) *number { return new(number(float64(ns-m.begin) / second)) }
	l := &Line{Request: i, ID: requests.ID(i), Model: m.model.name, State: stateNames[o.State], Status: o.Status,
		Error: o.Err, Resent: int(o.Resends)}
	if requests.models != nil {
		l.Model = requests.models[i]
	}
	if m.talks != nil {
		l.Conversation, l.Turn = new(m.talks.talk[i]), new(m.talks.turn[i]+1)
	}
	if o.Due != 0 {
		l.Due = at(o.Due)
	}
	if o.Start == 0 {
		return l
	}
	l.Sent = at(o.Start)
	l.SentAt = m.started.Add(time.Duration(o.Start - m.begin)).UTC().Format(time.RFC3339Nano)
	if o.End != 0 {
		l.Ended = at(o.End)
	}
	if n := len(o.Tokens); n > 0 && o.State == answer.Completed {
		if l.LastToken, l.Input = at(o.Tokens[n-1]), &o.Input; !m.options.pools() {
			l.FirstToken, l.Output = at(o.Tokens[0]), &o.Output
		}
		if m.options.SaveDetailed {
			for _, t := range o.Tokens {
				l.Tokens = append(l.Tokens, *at(t))
			}
		}
	}
	return l
}

// requestsFile is the file of --save-requests, in --result-dir like the result.
func (o *Options) requestsFile() durable.Output {
	out := durable.Output{Option: "--save-requests", Kind: "a list of requests of a load client", MakesFolder: true,
		Ours: func(head []byte) bool { return bytes.HasPrefix(head, []byte(`{"request":`)) }}
	if out.Path = o.SaveRequests; out.Path != "" && !filepath.IsAbs(out.Path) {
		out.Path = filepath.Join(o.ResultDir, out.Path)
	}
	return out
}

// saveRequests writes a line for each request, and returns the name of the file.
func (m *measurement) saveRequests(requests traffic) (string, error) {
	out := m.options.requestsFile()
	if err := durable.CheckOutputs(out); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(out.Path), 0o777); err != nil {
		return "", fmt.Errorf("make the folder of the requests: %w", err)
	}
	err := durable.WriteBy(out.Path, 0o666, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for i := range m.outcomes {
			if err := e.Encode(m.line(i, requests)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("write the requests: %w", err)
	}
	return out.Path, nil
}
