package sweep

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/source"
)

// A Format is a way to write a trajectory down, a row for each point.
type Format string

const (
	// CloudAI is its trajectory.csv: step, action, reward, observation, the action
	// a Python dict and the observation a Python list. It knows no verdict and no
	// run directory, and has no row for a refused point. A missing metric is
	// written as agent_config.rewards.metric_failure, and so is the reward of its
	// point: CloudAI reads both from this file.
	CloudAI Format = "cloudai"
	// CSV is for any tool: a column for each dimension, each drawn parameter
	// (env_params.NAME) and each metric (metrics.NAME), then reward, run_directory
	// and verdict. A missing metric, and the reward of a point that did not pass, is
	// an empty cell. A string that looks like a number is in double quotes of its own.
	CSV Format = "csv"
	// JSONLines is an object to a line, with CloudAI's keys (step, action, reward,
	// observation, env_params) and profllm's (metrics, run_directory, verdict). A
	// missing metric, and the reward of a point that did not pass, is null.
	JSONLines Format = "jsonl"
	// Metadata is CloudAI's metadata.csv: step and a column env_params.NAME for
	// each drawn parameter. It is empty where nothing is drawn.
	Metadata Format = "metadata"
)

// Columns of a trajectory, and prefixes of columns.
const (
	colStep        = "step"
	colAction      = "action"
	colReward      = "reward"
	colObservation = "observation"
	colEnv         = "env_params"
	colMetrics     = "metrics"
	colDirectory   = "run_directory"
	colVerdict     = "verdict"

	prefixEnv    = colEnv + "."
	prefixMetric = colMetrics + "."
)

// A Layout names what the rows of a trajectory hold.
type Layout struct {
	Dimensions    []string // paths, in order
	Env           []string // names of drawn parameters, in order
	Metrics       []string // empty after reading CloudAI's file, which does not name them
	MetricFailure float64  // what CloudAI's file has for a missing metric
}

// Header is the first line of a file with its line end, nil where a format has
// none. A file is continued by adding rows, if its first line is this one.
func (l Layout) Header(f Format) []byte {
	var cells []string
	switch f {
	case CloudAI:
		cells = []string{colStep, colAction, colReward, colObservation}
	case CSV:
		cells = append(append([]string{colStep}, l.Dimensions...), l.env()...)
		for _, m := range l.Metrics {
			cells = append(cells, prefixMetric+m)
		}
		cells = append(cells, colReward, colDirectory, colVerdict)
	case Metadata:
		if len(l.Env) == 0 {
			return nil
		}
		cells = append([]string{colStep}, l.env()...)
	default:
		return nil
	}
	return line(f, cells)
}

func (l Layout) env() []string {
	out := make([]string, len(l.Env))
	for i, n := range l.Env {
		out[i] = prefixEnv + n
	}
	return out
}

// Row is one line of a file with its line end; nil where the format has no row
// for such a point. A point that lacks a dimension of the layout, or has one
// more, or is Pending, is an error.
func (l Layout) Row(f Format, o Observed) ([]byte, error) {
	if o.Verdict == Pending {
		return nil, fmt.Errorf("step %d has no result yet", o.Step)
	}
	values, err := arrange(o.Step, l.Dimensions, o.Values)
	if err != nil {
		return nil, err
	}
	env, err := arrange(o.Step, l.Env, o.Env)
	if err != nil {
		return nil, err
	}
	if len(l.Metrics) > 0 && len(l.Metrics) != len(o.Observation) {
		return nil, fmt.Errorf("step %d: %d values for %d metrics", o.Step, len(o.Observation), len(l.Metrics))
	}
	o.Values, o.Env = values, env
	switch f {
	case CloudAI:
		return l.cloudAI(o), nil
	case CSV:
		return l.csv(o), nil
	case JSONLines:
		return l.json(o), nil
	case Metadata:
		if len(env) == 0 {
			return nil, nil
		}
		return line(f, append([]string{strconv.Itoa(o.Step)}, cells(env)...)), nil
	}
	return nil, fmt.Errorf("unknown trajectory format %q", string(f))
}

// arrange puts list into the order of paths.
func arrange(step int, paths []string, list []Assignment) ([]Assignment, error) {
	if len(list) != len(paths) {
		return nil, fmt.Errorf("step %d has %d values for %d columns", step, len(list), len(paths))
	}
	out := make([]Assignment, len(paths))
	for i, p := range paths {
		v := value(list, i, p)
		if v == nil {
			return nil, fmt.Errorf("step %d has no value for %s", step, p)
		}
		out[i] = Assignment{p, v}
	}
	return out, nil
}

func (l Layout) cloudAI(o Observed) []byte {
	if o.Verdict == Refused {
		return nil
	}
	action := source.NewTable(source.Pos{})
	for _, a := range o.Values {
		action.Set(a.Path, a.Value)
	}
	obs := make([]*source.Value, len(o.Observation))
	for i, v := range o.Observation {
		if math.IsNaN(v) {
			v = l.MetricFailure
		}
		obs[i] = &source.Value{Any: v}
	}
	reward := o.Reward
	if math.IsNaN(reward) { // of a failed point of an earlier execution
		reward = l.MetricFailure
	}
	return line(CloudAI, []string{
		strconv.Itoa(o.Step),
		string(appendLiteral(nil, &source.Value{Any: action})),
		floatText(reward),
		string(appendLiteral(nil, &source.Value{Any: obs})),
	})
}

func (l Layout) csv(o Observed) []byte {
	row := append([]string{strconv.Itoa(o.Step)}, cells(o.Values)...)
	row = append(row, cells(o.Env)...)
	for i := range l.Metrics {
		cell := ""
		if v := o.Observation[i]; !math.IsNaN(v) {
			cell = floatText(v)
		}
		row = append(row, cell)
	}
	reward := ""
	if o.Verdict == Passed {
		reward = floatText(o.Reward)
	}
	row = append(row, reward, o.Dir, string(o.Verdict))
	return line(CSV, row)
}

func cells(list []Assignment) []string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = cellText(a.Value)
	}
	return out
}

func (l Layout) json(o Observed) []byte {
	b := append(strconv.AppendInt([]byte(`{"step":`), int64(o.Step), 10), `,"action":`...)
	b = appendAssignments(b, o.Values, false)
	if len(o.Env) > 0 {
		b = appendAssignments(append(b, `,"env_params":`...), o.Env, false)
	}
	number := func(v float64) { b = appendJSON(b, &source.Value{Any: v}) }
	b = append(b, `,"reward":`...)
	if o.Verdict == Passed {
		number(o.Reward)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"observation":[`...)
	for i, v := range o.Observation {
		if i > 0 {
			b = append(b, ',')
		}
		number(v)
	}
	b = append(b, ']')
	if len(l.Metrics) > 0 {
		b = append(b, `,"metrics":[`...)
		for i, m := range l.Metrics {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, m)
		}
		b = append(b, ']')
	}
	b = appendString(append(b, `,"run_directory":`...), o.Dir)
	b = appendString(append(b, `,"verdict":`...), string(o.Verdict))
	return append(b, "}\n"...)
}

// line writes one CSV record. CloudAI's files end lines as Python's csv does.
func line(f Format, cells []string) []byte {
	var b bytes.Buffer
	w := printable.NewCSV(&b)
	w.UseCRLF = f == CloudAI || f == Metadata
	_ = w.Write(cells) // a buffer takes everything
	w.Flush()
	return b.Bytes()
}
