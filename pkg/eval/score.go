package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Result has the keys of vLLM's script, then ours.
type Result struct {
	Accuracy     float64  `json:"accuracy"`     // right answers of all questions; failed requests are wrong, as the script counts
	InvalidRate  float64  `json:"invalid_rate"` // answers without a number of all questions, likewise
	Latency      float64  `json:"latency"`      // s
	PerSecond    float64  `json:"questions_per_second"`
	OutputTokens int      `json:"total_output_tokens"`
	Tokens       float64  `json:"tokens_per_second"`
	Questions    int      `json:"num_questions"`
	Shots        int      `json:"num_shots"`
	MaxTokens    int      `json:"max_tokens"`
	Timestamp    float64  `json:"timestamp"` // s since 1970
	Params       Settings `json:"request_params"`
	Simulated    bool     `json:"simulated,omitempty"`
	Own          Own      `json:"profllm"`
}

// Own is what the script does not say.
type Own struct {
	Program  string  `json:"program"`
	Version  string  `json:"version"`
	Answered int     `json:"answered"` // requests that were answered
	Failed   int     `json:"failed"`   // requests that failed
	Right    int     `json:"right"`
	Invalid  int     `json:"invalid"`          // answers without a number
	Accuracy float64 `json:"accuracy"`         // right answers of those that were answered
	Digest   string  `json:"questions_digest"` // equal digests mean equal questions
	Shard    string  `json:"shard"`
	Sessions int     `json:"sessions"` // commands that asked
}

// Score counts the answers.
func (b *Book) Score(version string, now time.Time) (Result, error) {
	r := Result{Latency: b.seconds(), Questions: len(b.Answers), Shots: b.Settings.Shots, MaxTokens: b.Settings.MaxTokens,
		Timestamp: float64(now.UnixMilli()) / 1000, Params: b.Settings, Simulated: b.Settings.Simulated}
	o := &r.Own
	o.Program, o.Version, o.Digest, o.Shard, o.Sessions = "profllm eval gsm8k", version, b.Digest, b.Shard, b.session
	for _, a := range b.Answers {
		r.OutputTokens += a.Tokens
		switch {
		case a.Error != "":
			o.Failed++
			continue
		case a.Number == nil:
			o.Invalid++
		case a.Right:
			o.Right++
		}
		o.Answered++
	}
	if r.Questions == 0 {
		return r, fmt.Errorf("no question was asked")
	}
	n := float64(r.Questions)
	r.Accuracy, r.InvalidRate = float64(o.Right)/n, float64(o.Invalid+o.Failed)/n
	if o.Answered > 0 {
		o.Accuracy = float64(o.Right) / float64(o.Answered)
	}
	if r.Latency > 0 {
		r.PerSecond, r.Tokens = n/r.Latency, float64(r.OutputTokens)/r.Latency
	}
	return r, nil
}

// Write prints the result as the script does.
func (r *Result) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\nResults:\nAccuracy: %.3f\nInvalid responses: %.3f\nTotal latency: %.3f s\n"+
		"Questions per second: %.3f\nTotal output tokens: %d\nOutput tokens per second: %.3f\n",
		r.Accuracy, r.InvalidRate, r.Latency, r.PerSecond, r.OutputTokens, r.Tokens)
	if err == nil && r.Own.Failed > 0 {
		_, err = fmt.Fprintf(w, "Failed requests: %d of %d; accuracy of the answered: %.3f\n", r.Own.Failed, r.Questions,
			r.Own.Accuracy)
	}
	return err
}

// Encode writes the answers as a file, in the order of their questions.
func (b *Book) Encode() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	if err := enc.Encode(b.Head); err != nil {
		return nil, err
	}
	for _, i := range slices.Sorted(maps.Keys(b.Answers)) {
		if err := enc.Encode(b.Answers[i]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
