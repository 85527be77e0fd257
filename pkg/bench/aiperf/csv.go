package aiperf

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/result"
)

// csv reads the tables of a CSV: metrics with statistics, scalars, and GPU
// telemetry, which is left out. Columns are known by their header.
func (s *summary) csv(data []byte) error {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = -1
	r.LazyQuotes = true
	var header []string
	for {
		line, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case line[0] == "Metric":
			header = line
		case line[0] == "Endpoint":
			header = nil // telemetry of GPUs
		case header != nil:
			s.line(header, line, r)
		}
	}
	if len(s.table) == 0 {
		return fmt.Errorf("no table of metrics")
	}
	return nil
}

func (s *summary) line(header, line []string, r *csv.Reader) {
	tag, unit := csvTag(line[0])
	if tag == "simulated" {
		s.simulated = true
		return
	}
	out := row{unit: unit, stats: map[string]float64{}}
	for i, cell := range line[1:] {
		if i+1 >= len(header) || strings.TrimSpace(cell) == "" {
			continue
		}
		name := header[i+1]
		if name == "Value" {
			name = "avg"
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(cell), ",", ""), 64)
		if err != nil || v-v != 0 {
			at, col := r.FieldPos(i + 1)
			s.warnings = append(s.warnings,
				result.Warning{Kind: result.NoNumber, File: s.file, Line: at, Col: col, Key: line[0],
					Text: fmt.Sprintf("not a number: %.40q", cell)})
			continue
		}
		out.stats[name] = v
	}
	if len(out.stats) > 0 {
		if _, before := s.table[tag]; before {
			at, col := r.FieldPos(0)
			s.warnings = append(s.warnings,
				result.Warning{Kind: result.Contradicts, File: s.file, Line: at, Col: col, Key: line[0],
					Text: "the row occurs twice"})
		}
		s.table[tag] = out
	}
}

// csvNames maps the names of a CSV, in lower case and without the unit, to the
// tags of the JSON. Others become a tag by their spelling.
var csvNames = map[string]string{
	"total input sequence length": "total_isl", "total output sequence length": "total_osl", "goodput": "goodput",
	"output token throughput": "output_token_throughput", "completed requests": "completed_request_count",
}

// csvTag is the tag and the unit of a name such as "Request Latency (ms)".
func csvTag(name string) (tag, unit string) {
	name = strings.TrimSpace(name)
	if i := strings.LastIndexByte(name, '('); i > 0 && strings.HasSuffix(name, ")") {
		name, unit = strings.TrimSpace(name[:i]), name[i+1:len(name)-1]
	}
	lower := strings.ToLower(name)
	if tag, ok := csvNames[lower]; ok {
		return tag, unit
	}
	return strings.ReplaceAll(lower, " ", "_"), unit
}
