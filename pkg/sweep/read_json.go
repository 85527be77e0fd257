package sweep

import (
	"bytes"
	"slices"

	"github.com/profllm/profllm/pkg/source"
)

func (t *Trajectory) readJSON(data []byte) error {
	for n := 1; len(data) > 0; n++ {
		text, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		pos := source.Pos{File: t.Name, Line: n, Col: 1}
		v, wrong := parseJSON(text, n)
		if wrong != nil {
			return source.Errorf(source.Pos{File: t.Name, Line: n, Col: wrong.Col}, "%s", wrong.Text)
		}
		o, err := t.object(v, pos)
		if err != nil {
			return err
		}
		if err := t.add(o, pos); err != nil {
			return err
		}
	}
	return nil
}

// object reads a row of JSONLines, CloudAI's or profllm's.
func (t *Trajectory) object(v *source.Value, pos source.Pos) (o Observed, err error) {
	row, ok := v.Any.(*source.Table)
	if !ok {
		return o, source.Errorf(pos, "a row must be an object")
	}
	known := []string{colStep, colAction, colEnv, colReward, colObservation, colMetrics, colDirectory, colVerdict}
	for _, k := range row.Keys() {
		row.Get(k).Pos = pos
		if !slices.Contains(known, k) {
			return o, source.Errorf(pos, "unknown key %q", k).Hintf("%s", source.Suggest(k, known))
		}
	}
	for _, k := range []string{colStep, colAction, colReward, colObservation} {
		if !row.Has(k) {
			return o, source.Errorf(pos, "the key %q is missing", k)
		}
	}
	step, ok := row.Get(colStep).Any.(int64)
	if !ok {
		return o, source.Errorf(pos, "step must be a whole number")
	}
	o.Step = int(step)
	if o.Values, err = t.action(colAction, &t.Dimensions, row.Get(colAction)); err != nil {
		return o, err
	}
	if env := row.Get(colEnv); env != nil || len(t.Env) > 0 {
		if env == nil {
			env = &source.Value{Pos: pos, Any: source.NewTable(pos)}
		}
		if o.Env, err = t.action(colEnv, &t.Env, env); err != nil {
			return o, err
		}
	}
	if o.Observation, err = observation(row.Get(colObservation)); err != nil {
		return o, err
	}
	return o, t.rest(row, pos, &o)
}

// rest reads the reward and what only profllm writes.
func (t *Trajectory) rest(row *source.Table, pos source.Pos, o *Observed) error {
	if v := row.Get(colMetrics); v != nil {
		names, err := texts(v)
		if err != nil {
			return err
		}
		if len(t.Rows) == 0 {
			t.Metrics = names
		}
		if len(names) != len(o.Observation) {
			return source.Errorf(pos, "%d values for %d metrics", len(o.Observation), len(names))
		}
		if !slices.Equal(t.Metrics, names) {
			return source.Errorf(pos, "this row has other metrics than the first row: %q, not %q", names, t.Metrics)
		}
	} else if len(t.Metrics) > 0 {
		return source.Errorf(pos, "this row names no metrics, but the first row does")
	}
	if v := row.Get(colDirectory); v != nil {
		s, ok := v.Text()
		if !ok {
			return source.Errorf(pos, "%s must be a string", colDirectory)
		}
		o.Dir = s
	}
	v := row.Get(colVerdict)
	if v == nil {
		o.judge()
		return o.rewarded(row, pos, true)
	}
	s, _ := v.Text()
	var err error
	if o.Verdict, err = verdict(s, pos); err != nil {
		return err
	}
	return o.rewarded(row, pos, o.Verdict == Passed)
}

// rewarded reads the reward, which may be null where none must be there.
func (o *Observed) rewarded(row *source.Table, pos source.Pos, must bool) error {
	switch x := row.Get(colReward).Any.(type) {
	case float64:
		o.Reward = x
	case int64:
		o.Reward = float64(x)
	default:
		if x != nil || must {
			return source.Errorf(pos, "reward must be a number")
		}
	}
	o.unmeasured()
	return nil
}

func texts(v *source.Value) ([]string, error) {
	list, ok := listOf(v)
	out := make([]string, len(list))
	for i, e := range list {
		s, isText := e.Text()
		out[i], ok = s, ok && isText
	}
	if !ok {
		return nil, source.Errorf(v.Pos, "%s must be a list of strings", colMetrics)
	}
	return out, nil
}
