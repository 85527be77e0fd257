package sweep

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/source"
)

// A Trajectory is a file of observed points.
type Trajectory struct {
	Name   string // as given to Read
	Format Format
	Layout
	Rows []Observed // steps increase; they may have gaps
	// Torn says that the last line lacks its end, as after a crash while it was
	// written, and was left out: "" or a sentence with its position.
	Torn string
	// Keep is the number of bytes that hold whole rows: before a row is added, the
	// file is to be cut to that length.
	Keep int64

	envColumn bool // a CloudAI file of a later version, with drawn values in a fifth column
}

// Read reads a trajectory or a metadata.csv in any Format; an empty file has none. name stands
// in positions. CloudAI's own file says neither verdict nor metric names: a row with a negative
// value, which no metric has, is Failed, any other Passed.
func Read(name string, r io.Reader) (*Trajectory, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	mark := len(data)
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a spreadsheet's byte order mark
	mark -= len(data)
	if !utf8.Valid(data) {
		return nil, source.Errorf(source.Pos{File: name}, "the trajectory is not UTF-8")
	}
	cut := bytes.LastIndexByte(data, '\n') + 1
	if cut == 0 && len(data) > 0 {
		if _, err := parse(name, data); err != nil {
			return nil, err
		}
	}
	t, err := parse(name, data[:cut])
	if err != nil {
		return nil, err
	}
	t.Keep = int64(mark + cut)
	if cut < len(data) {
		pos := source.Pos{File: name, Line: bytes.Count(data, []byte("\n")) + 1, Col: 1}
		t.Torn = source.Errorf(pos, "the last line is incomplete and was left out").Error()
	}
	return t, nil
}

func parse(name string, data []byte) (*Trajectory, error) {
	t := &Trajectory{Name: name}
	switch trimmed := bytes.TrimSpace(data); {
	case len(trimmed) == 0: // no format yet
		return t, nil
	case trimmed[0] == '{':
		t.Format = JSONLines
		return t, t.readJSON(data)
	}
	return t, t.readCSV(data)
}

// add appends a row whose step must be above the last one's.
func (t *Trajectory) add(o Observed, pos source.Pos) error {
	last := 0
	if n := len(t.Rows); n > 0 {
		last = t.Rows[n-1].Step
	}
	if o.Step <= last {
		return source.Errorf(pos, "step %d after step %d: steps must increase, from 1", o.Step, last)
	}
	t.Rows = append(t.Rows, o)
	return nil
}

// same checks that a row sets what the first row set, and takes the names from
// the first row.
func (t *Trajectory) same(what string, names *[]string, list []Assignment, pos source.Pos) error {
	if len(t.Rows) == 0 {
		for _, a := range list {
			*names = append(*names, a.Path)
		}
		return nil
	}
	if _, err := arrange(0, *names, list); err != nil {
		return source.Errorf(pos, "the keys of this row's %s differ from those of the first row", what)
	}
	return nil
}

func (t *Trajectory) readCSV(data []byte) error {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = -1
	header, err := r.Read()
	if err != nil {
		return t.csvError(err)
	}
	for i, cell := range header {
		header[i] = printable.CellText(cell)
	}
	row, err := t.header(header)
	if err != nil {
		return err
	}
	for {
		fields, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return t.csvError(err)
		}
		for i, cell := range fields {
			fields[i] = printable.CellText(cell)
		}
		c := record{fields, func(i int) source.Pos {
			line, col := r.FieldPos(i)
			return source.Pos{File: t.Name, Line: line, Col: col}
		}}
		if len(fields) != len(header) {
			return source.Errorf(c.pos(0), "the row has %d columns, the header %d", len(fields), len(header))
		}
		o, err := row(c)
		if err != nil {
			return err
		}
		if err := t.add(o, c.pos(0)); err != nil {
			return err
		}
	}
}

func (t *Trajectory) csvError(err error) error {
	var pe *csv.ParseError
	if errors.As(err, &pe) {
		return source.Errorf(source.Pos{File: t.Name, Line: pe.Line, Col: pe.Column}, "%v", pe.Err)
	}
	return fmt.Errorf("read %s: %w", t.Name, err)
}

// record is a CSV record and where its cells stand.
type record struct {
	cells []string
	pos   func(i int) source.Pos
}

// header tells the format by the column names and returns the reader of a row.
func (t *Trajectory) header(cells []string) (func(record) (Observed, error), error) {
	pos := source.Pos{File: t.Name, Line: 1, Col: 1}
	for i, c := range cells {
		if slices.Contains(cells[:i], c) {
			return nil, source.Errorf(pos, "column %q occurs twice", c)
		}
	}
	switch joined := strings.Join(cells, ","); joined {
	case "step,action,reward,observation", "step,action,reward,observation,env_params":
		t.Format, t.envColumn = CloudAI, len(cells) == 5
		return t.cloudAIRow, nil
	}
	n := len(cells)
	if cells[0] == colStep && n >= 4 && slices.Equal(cells[n-3:], []string{colReward, colDirectory, colVerdict}) {
		t.Format = CSV
		return t.plainRow, t.columns(cells[1:n-3], pos)
	}
	if cells[0] == colStep && n > 1 {
		t.Format = Metadata
		if err := t.columns(cells[1:], pos); err == nil && len(t.Env) == n-1 {
			return t.metadataRow, nil
		}
	}
	return nil, source.Errorf(pos, "this is not a trajectory: its columns are %q", cells).
		Hintf("CloudAI's are step,action,reward,observation; profllm's begin with step and end with reward,run_directory,verdict")
}

// columns sorts names into dimensions, drawn parameters and metrics, which must
// stand in this order.
func (t *Trajectory) columns(names []string, pos source.Pos) error {
	for _, n := range names {
		env, isEnv := strings.CutPrefix(n, prefixEnv)
		metric, isMetric := strings.CutPrefix(n, prefixMetric)
		switch {
		case isMetric:
			t.Metrics = append(t.Metrics, metric)
		case len(t.Metrics) > 0, !isEnv && len(t.Env) > 0:
			return source.Errorf(pos, "column %q is out of order: dimensions, %s… and %s… follow each other", n,
				prefixEnv, prefixMetric)
		case isEnv:
			t.Env = append(t.Env, env)
		default:
			t.Dimensions = append(t.Dimensions, n)
		}
	}
	return nil
}

func (c record) step() (int, error) {
	n, err := strconv.Atoi(c.cells[0])
	if err != nil || n < 1 {
		return 0, source.Errorf(c.pos(0), "step %q must be a number, 1 or more", c.cells[0])
	}
	return n, nil
}

func (c record) float(i int) (float64, error) {
	f, err := strconv.ParseFloat(c.cells[i], 64)
	if err != nil {
		return 0, source.Errorf(c.pos(i), "%q is not a number", c.cells[i])
	}
	return f, nil
}

// assignments reads a cell for each name, the first in column i.
func (c record) assignments(i int, names []string) ([]Assignment, error) {
	var out []Assignment
	for k, n := range names {
		v, err := parseCell(c.cells[i+k])
		if err == nil && v == nil {
			err = errors.New("the value is missing")
		}
		if err != nil {
			return nil, source.Errorf(c.pos(i+k), "%s: %v", n, err)
		}
		out = append(out, Assignment{n, &source.Value{Pos: c.pos(i + k), Any: v}})
	}
	return out, nil
}

func (t *Trajectory) metadataRow(c record) (o Observed, err error) {
	if o.Step, err = c.step(); err != nil {
		return o, err
	}
	o.Env, err = c.assignments(1, t.Env)
	return o, err
}

func (t *Trajectory) plainRow(c record) (o Observed, err error) {
	if o.Step, err = c.step(); err != nil {
		return o, err
	}
	if o.Values, err = c.assignments(1, t.Dimensions); err != nil {
		return o, err
	}
	at := 1 + len(t.Dimensions)
	if o.Env, err = c.assignments(at, t.Env); err != nil {
		return o, err
	}
	at += len(t.Env)
	for range t.Metrics {
		v := math.NaN()
		if c.cells[at] != "" {
			if v, err = c.float(at); err != nil {
				return o, err
			}
		}
		o.Observation = append(o.Observation, v)
		at++
	}
	o.Dir = c.cells[at+1]
	if o.Verdict, err = verdict(c.cells[at+2], c.pos(at+2)); err != nil {
		return o, err
	}
	if c.cells[at] != "" || o.Verdict == Passed {
		o.Reward, err = c.float(at)
	}
	o.unmeasured()
	return o, err
}

func verdict(s string, pos source.Pos) (Verdict, error) {
	switch v := Verdict(s); v {
	case Passed, Failed, Refused:
		return v, nil
	}
	return "", source.Errorf(pos, "unknown verdict %q", s).Hintf("known: passed, failed, refused")
}

func (t *Trajectory) cloudAIRow(c record) (o Observed, err error) {
	if o.Step, err = c.step(); err != nil {
		return o, err
	}
	if o.Reward, err = c.float(2); err != nil {
		return o, err
	}
	read := func(i int) (*source.Value, error) {
		v, err := parseLiteral(c.cells[i])
		if err != nil {
			return nil, source.Errorf(c.pos(i), "%v", err)
		}
		v.Pos = c.pos(i)
		return v, nil
	}
	action, err := read(1)
	if err != nil {
		return o, err
	}
	if o.Values, err = t.action(colAction, &t.Dimensions, action); err != nil {
		return o, err
	}
	obs, err := read(3)
	if err != nil {
		return o, err
	}
	if o.Observation, err = observation(obs); err != nil {
		return o, err
	}
	if t.envColumn {
		env, err := read(4)
		if err != nil {
			return o, err
		}
		if o.Env, err = t.action(colEnv, &t.Env, env); err != nil {
			return o, err
		}
	}
	o.judge()
	return o, nil
}

// unmeasured takes the reward from a point that did not pass: older files have the sweep's for failures.
func (o *Observed) unmeasured() {
	if o.Verdict != Passed {
		o.Reward = math.NaN()
	}
}

// judge gives a verdict to a row of CloudAI's.
func (o *Observed) judge() {
	o.Verdict = Passed
	for i, v := range o.Observation {
		if !(v >= 0) {
			o.Observation[i], o.Verdict = math.NaN(), Failed
		}
	}
	if len(o.Observation) == 0 {
		o.Verdict = Failed
	}
}

// action reads a table of values.
func (t *Trajectory) action(what string, names *[]string, v *source.Value) ([]Assignment, error) {
	table, ok := v.Any.(*source.Table)
	if !ok {
		return nil, source.Errorf(v.Pos, "%s must be a table of values", what)
	}
	var out []Assignment
	for _, k := range table.Keys() {
		e := table.Get(k)
		if unwritable(e) != "" {
			return nil, source.Errorf(v.Pos, "%s: %q has no value that a definition can hold", what, k)
		}
		out = append(out, Assignment{k, &source.Value{Pos: v.Pos, Any: e.Any}})
	}
	return out, t.same(what, names, out, v.Pos)
}

// observation reads a list of numbers; null is NaN.
func observation(v *source.Value) ([]float64, error) {
	list, ok := listOf(v)
	if !ok {
		return nil, source.Errorf(v.Pos, "observation must be a list of numbers")
	}
	out := make([]float64, len(list))
	for i, e := range list {
		switch x := e.Any.(type) {
		case nil:
			out[i] = math.NaN()
		case float64:
			out[i] = x
		case int64:
			out[i] = float64(x)
		default:
			return nil, source.Errorf(v.Pos, "observation must be a list of numbers")
		}
	}
	return out, nil
}
