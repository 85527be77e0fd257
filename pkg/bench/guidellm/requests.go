package guidellm

import (
	"math"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// requests are the details of a benchmark: of all its requests, or of a sample, as
// the client was told.
type requests struct {
	done, failed []request
	unusable     bool // an entry lacks what the record needs of each
}

// A request is one of them; times in s.
type request struct {
	start, latency, ttft float64
	in, out              int
	err                  string
}

// readRequests reads the lists one request at a time: with its texts, a request may
// have a megabyte.
func (b *benchmark) readRequests(in *pyjson.Reader) error {
	if in.Kind() != pyjson.Object {
		return in.Skip()
	}
	return in.Object(func(status string) error {
		if in.Kind() != pyjson.List || status != "successful" && status != "errored" {
			return in.Skip() // those given up at the end have no result
		}
		return in.List(func() error {
			q, ok, err := readRequest(in)
			if q.err == "" && status == "errored" {
				q.err = "failed"
			}
			switch {
			case status == "errored":
				b.requests.failed = append(b.requests.failed, q)
			case ok:
				b.requests.done = append(b.requests.done, q)
			default:
				b.requests.unusable = true
			}
			return err
		})
	})
}

// readRequest reads one entry; ok is false if it lacks a number.
func readRequest(in *pyjson.Reader) (q request, ok bool, err error) {
	if in.Kind() != pyjson.Object {
		return q, false, in.Skip()
	}
	got := map[string]float64{}
	err = in.Object(func(key string) error {
		switch key {
		case "request_latency", "time_to_first_token_ms", "prompt_tokens", "output_tokens", "request_start_time",
			"start_time":
			v, err := in.Value()
			if x, finite := v.Finite(); finite {
				got[key] = x
			}
			return err
		case "error":
			v, err := in.Value()
			if v.Kind == pyjson.Text {
				q.err = v.Str
			}
			return err
		case "info", "scheduler_info":
			v, err := in.Value()
			if text := v.At("error"); text.Kind == pyjson.Text {
				q.err = text.Str
			}
			return err
		}
		return in.Skip()
	})
	start, started := got["request_start_time"]
	if !started {
		start, started = got["start_time"] // until 0.3
	}
	latency, timed := got["request_latency"]
	tokens, counted := got["output_tokens"]
	q.start, q.latency, q.ttft = start, latency, got["time_to_first_token_ms"]/1000
	q.in, q.out = count(got["prompt_tokens"]), count(tokens)
	return q, started && timed && counted, err
}

func count(x float64) int {
	if x < 0 || x > 1<<40 || x != math.Trunc(x) {
		return 0
	}
	return int(x)
}

// samples are the requests behind the statistics; nil unless they are all there.
func (r *requests) samples(done int, failed *int) *result.Samples {
	if r.unusable || len(r.done) == 0 || len(r.done) != done || failed == nil || len(r.failed) != *failed {
		return nil
	}
	s := &result.Samples{}
	streamed := true
	for _, q := range append(r.done, r.failed...) {
		if q.err != "" {
			q.latency, q.ttft, q.out = 0, 0, 0
		} else {
			streamed = streamed && q.ttft != 0
		}
		s.Start, s.Latency, s.TTFT = append(s.Start, q.start), append(s.Latency, q.latency), append(s.TTFT, q.ttft)
		s.InputLen, s.OutputLen, s.Errors = append(s.InputLen, q.in), append(s.OutputLen, q.out), append(s.Errors,
			q.err)
	}
	if !streamed {
		s.TTFT = nil
	}
	return s
}
