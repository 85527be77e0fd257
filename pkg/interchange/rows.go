package interchange

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
)

// Row is one run of a sweep of vLLM as its summary.json has it: every key that holds no list and
// no object, in the order of the file.
type Row struct {
	Cells []Cell
	// Chosen is the place of the first cell that the sweep chose: those from there on are the
	// parameters of the run.
	Chosen    int
	Simulated bool // the client's file was labelled so
}

// Cell is a value of a row.
type Cell struct {
	Key    string
	Number *float64 // nil for null and for text; also of the texts inf, -inf and nan, and of truth values
	Text   string   // as Python writes the value
}

// Rows reads the summary.json of a sweep of vLLM as rows of a table, not as records: keys, null
// and infinities stay as they are. Any other file is ErrUnknown.
func Rows(file string, data []byte) ([]Row, error) {
	docs, err := documents(file, data)
	if err != nil {
		return nil, err
	}
	if docs[0].kind != list || !isServe(docs[0]) {
		return nil, fmt.Errorf("%s: %w", file, ErrUnknown)
	}
	var rows []Row
	for _, n := range docs[0].items {
		if n.kind != table {
			return rows, n.errorf(file, "want a result of vllm bench serve, an object")
		}
		rows = append(rows, rowOf(n))
	}
	return rows, nil
}

func rowOf(n *node) Row {
	var r Row
	chosen := false
	for i, key := range n.keys {
		v := n.items[i]
		if v.kind == list || v.kind == table {
			continue
		}
		c := cellOf(key, v)
		if key == "simulated" && result.Labelled([]byte(v.text)) {
			r.Simulated = true
		}
		r.Cells = append(r.Cells, c)
		if !chosen {
			r.Chosen = len(r.Cells)
		}
		chosen = chosen || key == runNumber
	}
	return r
}

// cellOf reads a value as Python and pandas do.
func cellOf(key string, v *node) Cell {
	c := Cell{Key: key, Text: v.text}
	switch {
	case v.kind == nothing:
		c.Text = "None"
	case v.text == "true" && v.kind == scalar:
		c.Number, c.Text = new(1.0), "True"
	case v.text == "false" && v.kind == scalar:
		c.Number, c.Text = new(0.0), "False"
	case v.kind == text && (v.text == "inf" || v.text == "-inf"):
		sign := 1
		if v.text == "-inf" {
			sign = -1
		}
		c.Number = new(math.Inf(sign))
	case v.kind == text && v.text == "nan":
		c.Number = new(math.NaN())
	case v.kind == scalar:
		if x, err := strconv.ParseFloat(v.text, 64); err == nil || math.IsInf(x, 0) {
			c.Number = &x
		}
	}
	return c
}

// Sweep is the summary of one combination of a sweep of vLLM.
type Sweep struct {
	File string
	Rows []Row
}

// summaryFile is the name of such a file.
const summaryFile = "summary.json"

// Sweeps reads every summary.json at or below a path that is of a sweep of vLLM, but for what lies
// within runs of profllm, which have records. spoilt hears of each that cannot be read.
func Sweeps(path string, spoilt func(path string, err error)) ([]Sweep, error) {
	var list []Sweep
	return list, filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == path:
			return err
		case err != nil:
			spoilt(name, err)
			return nil
		case d.IsDir() && isOwn(name):
			return fs.SkipDir
		case d.IsDir() || d.Name() != summaryFile:
			return nil
		}
		data, err := regular.ReadAtMost(name, MaxSize)
		var rows []Row
		if err == nil {
			rows, err = Rows(name, data)
		}
		if err != nil && !errors.Is(err, ErrUnknown) {
			spoilt(name, err)
		}
		if len(rows) > 0 {
			list = append(list, Sweep{name, rows})
		}
		return nil
	})
}
