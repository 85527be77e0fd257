package node

import (
	"bytes"
	"fmt"
	"io"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/gpu"
)

// mark begins each of our lines: a site's prolog may print as well.
const mark = "look "

// line is one line of a report: srun keeps lines of up to a kilobyte whole, so
// that there are many short ones.
type line struct {
	Host  string      `json:"host"`
	Check *Check      `json:"check,omitempty"`
	GPU   *gpu.Device `json:"gpu,omitempty"`
	Stray *Process    `json:"stray,omitempty"`
	Is    *Machine    `json:"machine,omitempty"`
	Ran   *Ran        `json:"ran,omitempty"`
	Left  string      `json:"left,omitempty"`  // of what was found after the end
	Swept bool        `json:"swept,omitempty"` // all of it was looked for
	Began time.Time   `json:"began,omitzero"`
	Ended time.Time   `json:"ended,omitzero"`
}

func write(w io.Writer, lines []line) error {
	var b bytes.Buffer
	for _, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s%s\n", mark, data)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Write prints the report as lines.
func (r Report) Write(w io.Writer) error {
	var lines []line
	for i := range r.Checks {
		lines = append(lines, line{Host: r.Host, Check: &r.Checks[i]})
	}
	for _, d := range r.GPUs {
		d.Processes = nil // who they are is in the checks
		lines = append(lines, line{Host: r.Host, GPU: &d})
	}
	for i := range r.Strays {
		lines = append(lines, line{Host: r.Host, Stray: &r.Strays[i]})
	}
	if r.Is != nil {
		lines = append(lines, line{Host: r.Host, Is: r.Is})
	}
	return write(w, append(lines, line{Host: r.Host, Began: r.Began, Ended: r.Ended}))
}

// WriteRan prints what the steps of a host run with.
func WriteRan(w io.Writer, host string, facts []Ran) error {
	var lines []line
	for i := range facts {
		lines = append(lines, line{Host: host, Ran: &facts[i]})
	}
	return write(w, lines)
}

// WriteLeft prints what was found on a host after the end of its steps.
func WriteLeft(w io.Writer, host string, found []string) error {
	var lines []line
	for _, text := range found {
		lines = append(lines, line{Host: host, Left: shortened(text)})
	}
	return write(w, append(lines, line{Host: host, Swept: true}))
}

// Left is something that a job left on a host.
type Left struct{ Host, Text string }

// Lines collects the lines of all nodes.
type Lines struct {
	Reports map[string]*Report
	Left    []Left
	Swept   []string // hosts that were looked at after the end
}

// Add reads one line; it ignores foreign and truncated lines.
func (l *Lines) Add(text []byte) {
	data, ok := bytes.CutPrefix(bytes.TrimSpace(text), []byte(mark))
	var x line
	if !ok || json.Unmarshal(data, &x) != nil || x.Host == "" {
		return
	}
	if x.Left != "" {
		l.Left = append(l.Left, Left{x.Host, x.Left})
		return
	}
	if x.Swept {
		l.Swept = append(l.Swept, x.Host)
		return
	}
	if l.Reports == nil {
		l.Reports = map[string]*Report{}
	}
	r := l.Reports[x.Host]
	if r == nil {
		r = &Report{Host: x.Host}
		l.Reports[x.Host] = r
	}
	switch {
	case x.Check != nil:
		r.Checks = append(r.Checks, *x.Check)
	case x.GPU != nil:
		r.GPUs = append(r.GPUs, *x.GPU)
	case x.Is != nil:
		r.Is = x.Is
	case x.Ran != nil:
		r.Ran = append(r.Ran, *x.Ran)
	case x.Stray != nil:
		r.Strays = append(r.Strays, *x.Stray)
	case !x.Ended.IsZero():
		r.Began, r.Ended = x.Began, x.Ended
	}
}
