package inferenceperf

import (
	"errors"
	"io/fs"
	"math"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// requests reads the details of a load of one stage; its entries do not name their
// stage. They are used if they are as many as the load had requests. That they cannot
// be read is a warning: the statistics stand without them.
func (r *report) requests(dir fs.FS, p *result.Part) {
	s := &result.Samples{}
	usable, streamed := true, true
	f := clientfile.File{Name: PerRequestFile}
	err := f.Read(dir, func(in *pyjson.Reader) error {
		if in.Kind() != pyjson.List {
			usable = false
			return in.Skip()
		}
		return in.List(func() error {
			q, err := readRequest(in)
			usable = usable && q.usable
			streamed = streamed && (q.ttft != 0 || q.err != "")
			s.Start, s.Latency, s.TTFT, s.ITL = append(s.Start, q.start), append(s.Latency, q.latency), append(s.TTFT,
				q.ttft), append(s.ITL, q.gaps)
			s.InputLen, s.OutputLen, s.Errors = append(s.InputLen, q.in), append(s.OutputLen, q.out), append(s.Errors,
				q.err)
			return err
		})
	})
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	r.Warnings = append(r.Warnings, f.Warnings...)
	if err != nil || !usable || p.Metrics.NumPrompts == nil || len(s.Start) != *p.Metrics.NumPrompts ||
		len(s.Start) == 0 {
		return
	}
	if !streamed {
		s.TTFT, s.ITL = nil, nil
	}
	p.Samples = s
}

// A request is one entry; times in s.
type request struct {
	start, latency, ttft float64
	gaps                 []float64
	in, out              int
	err                  string
	usable               bool
}

// readRequest reads one entry. The texts of request and response are passed.
func readRequest(in *pyjson.Reader) (q request, err error) {
	if in.Kind() != pyjson.Object {
		return q, in.Skip()
	}
	var start, end, info, failed pyjson.Value
	err = in.Object(func(key string) error {
		to, ok := map[string]*pyjson.Value{"start_time": &start, "end_time": &end, "error": &failed}[key]
		switch {
		case ok:
			*to, err = in.Value()
			return err
		case key == "info" && in.Kind() == pyjson.Object:
			info, err = readInfo(in)
			return err
		}
		return in.Skip()
	})
	if err != nil {
		return q, err
	}
	a, started := start.Finite()
	b, ended := end.Finite()
	q.start, q.latency = a, b-a
	switch failed.Kind {
	case pyjson.Object:
		q.err = failed.At("error_type").Str + ": " + failed.At("error_msg").Str
	case pyjson.Text:
		q.err = failed.Str
	}
	tokens := info.At("output_tokens")
	q.in, q.out = count(info.At("input_tokens")), count(tokens)
	q.usable = started && ended && (q.err != "" || tokens.Kind == pyjson.Number)
	if q.err != "" {
		q.latency, q.out = 0, 0
		return q, nil
	}
	for i, v := range info.At("output_token_times").Items {
		at, ok := v.Finite()
		if !ok {
			q.usable = false
		}
		if i == 0 {
			q.ttft = at - a
		} else {
			q.gaps = append(q.gaps, at-b)
		}
		b = at
	}
	return q, nil
}

// readInfo brings the two forms of an entry's info together: until 2026 all stood
// there, later below request_metrics and response_metrics. Of the latter the chunks
// are passed, which are long.
func readInfo(in *pyjson.Reader) (info pyjson.Value, err error) {
	keep := func(key string, v pyjson.Value) {
		if v.Kind != pyjson.Absent {
			info.Fields = append(info.Fields, pyjson.Field{Key: key, Value: v})
		}
	}
	var later []pyjson.Field
	err = in.Object(func(key string) error {
		switch {
		case key == "input_tokens", key == "output_tokens", key == "output_token_times":
			v, err := in.Value()
			keep(key, v)
			return err
		case key == "request_metrics":
			v, err := in.Value()
			later = append(later, pyjson.Field{Key: "input_tokens", Value: v.At("text", "input_tokens")})
			return err
		case key == "response_metrics" && in.Kind() == pyjson.Object:
			return in.Object(func(key string) error {
				if key != "output_tokens" && key != "output_token_times" {
					return in.Skip()
				}
				v, err := in.Value()
				later = append(later, pyjson.Field{Key: key, Value: v})
				return err
			})
		}
		return in.Skip()
	})
	for _, f := range later {
		if info.At(f.Key).Kind == pyjson.Absent {
			keep(f.Key, f.Value)
		}
	}
	return info, err
}

func count(v pyjson.Value) int {
	x, ok := v.Finite()
	if !ok || x < 0 || x > 1<<40 || x != math.Trunc(x) {
		return 0
	}
	return int(x)
}
