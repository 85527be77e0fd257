package summary

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/collect/cache"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/terminal"
)

// table has one line for each result, and below it the notes on those that are not simply valid.
func table(rows []cache.Row, relative func(string) string) Block {
	t := terminal.Table{Columns: []terminal.Column{
		{Name: "run"}, {Name: "settings"}, {Name: "verdict"}, {Name: "done", Drop: 5}, {Name: "req/s", Drop: 2},
		{Name: "out tok/s", Drop: 6}, {Name: "per GPU", Drop: 1}, {Name: "TTFT ms p50 / p99", Drop: 4},
		{Name: "TPOT ms p50 / p99", Drop: 3}, {Name: "accuracy", Drop: 7},
	}}
	settings := differences(rows)
	const at = 1 // of the settings
	if len(settings) == 0 {
		t.Columns = slices.Delete(t.Columns, at, at+1)
	}
	dirs := make([]string, len(rows))
	for i, r := range rows {
		dirs[i] = r.Dir
	}
	name := Names(dirs, relative)
	for _, r := range rows {
		m := r.Result.Results
		done := ""
		if m.CompletedRequests != nil {
			done = fmt.Sprintf("%d/%s", *m.CompletedRequests, number(m.NumPrompts, "%d"))
		}
		accuracy := ""
		if r.Result.Accuracy != nil {
			accuracy = fmt.Sprintf("%.3f", r.Result.Accuracy.Value)
		}
		line := Cells(name(r.Dir), settings[r.Dir], verdict(r), done, number(m.RequestThroughput, "%.2f"),
			number(m.OutputThroughput, "%.1f"), number(m.OutputPerGPU, "%.1f"), latency(r.Result, result.TTFT),
			latency(r.Result, result.TPOT), accuracy)
		if len(settings) == 0 {
			line = slices.Delete(line, at, at+1)
		}
		t.Row(line...)
	}
	return Block{t, Notes(rows, name)}
}

// Cells makes the cells of a row of texts and numbers; verdicts have their tones.
func Cells(values ...any) []terminal.Cell {
	row := make([]terminal.Cell, len(values))
	for i, v := range values {
		if c, ok := v.(terminal.Cell); ok {
			row[i] = c
			continue
		}
		text := fmt.Sprint(v)
		row[i] = terminal.Cell{Text: text, Tone: format.Tone(text)}
	}
	return row
}

// differences are the settings in which the results of one test differ, by directory: the
// points of a sweep, or its phases.
func differences(rows []cache.Row) map[string]string {
	tests := map[string][]cache.Row{}
	for _, r := range rows {
		if r.Result.Config.Settings != nil {
			tests[testDir(r.Dir)] = append(tests[testDir(r.Dir)], r)
		}
	}
	of := map[string]string{}
	for _, list := range tests {
		settings := make([]map[string]string, len(list))
		for i, r := range list {
			settings[i] = r.Result.Config.Settings
			if r.Result.IsOpen() {
				settings[i] = withKnobs(settings[i], list)
			}
		}
		for i, text := range plan.Differences(settings) {
			of[list[i].Dir] = text
		}
	}
	return of
}

// withKnobs adds the settings of the simulator that other runs of the test have: one that has not
// begun does not know its shell's yet, and is no different for that.
func withKnobs(settings map[string]string, others []cache.Row) map[string]string {
	settings = maps.Clone(settings)
	for _, r := range others {
		for key, value := range r.Result.Config.Settings {
			if _, has := settings[key]; !has && strings.HasPrefix(key, plan.EnvSetting+knobs.KnobPrefix) {
				settings[key] = value
			}
		}
	}
	return settings
}

// testDir is the directory of the test that a run or a load belongs to, or the parent of
// one that belongs to none.
func testDir(dir string) string {
	name := Name(dir)
	if root, ok := strings.CutSuffix(dir, name); ok {
		test, _, _ := strings.Cut(name, "/")
		return root + test
	}
	return filepath.Dir(dir)
}

// Name is the place of a run, or of a load, below its scenario's directory or in its archive;
// without one the last two elements.
func Name(dir string) string {
	if name, ok := archive.Inside(dir); ok {
		return name
	}
	for root := filepath.Dir(dir); root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, run.ScenarioFile)); err != nil {
			continue
		}
		if name, err := filepath.Rel(root, dir); err == nil {
			return name
		}
	}
	return filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir))
}

// Names names runs that are shown together: each by Name, or, where two would be called the
// same, all by their paths, which relative shortens.
func Names(dirs []string, relative func(path string) string) func(dir string) string {
	seen := map[string]bool{}
	for _, dir := range dirs {
		name := Name(dir)
		if seen[name] && relative == nil {
			return func(dir string) string { return dir }
		}
		if seen[name] {
			return relative
		}
		seen[name] = true
	}
	return Name
}

// verdict is the verdict on a record, with how its run ended and whose it is.
func verdict(row cache.Row) string {
	r := row.Result
	if r.Status == result.Unknown {
		return cmp.Or(row.NoJob, "not over") // no verdict before the end
	}
	s := string(r.Validity.Verdict)
	if r.Status != result.Completed {
		s = r.Status.String() + ", " + s
	}
	if r.Simulated {
		s += fmt.Sprintf(" (%s)", records.KindOf(r))
	}
	switch p := r.Provenance; {
	case p.From() == "":
	case p.Imported != nil:
		s += " (imported)"
	default:
		s += " (foreign)"
	}
	return s
}

func number[T int | float64](v *T, format string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

// latency is the median and P99; – stands for one that a check withholds.
func latency(r *result.Result, f result.Family) string {
	d, ok := r.Results.Latency[f]
	if !ok {
		return ""
	}
	shown := func(stat string, rank float64) string {
		v, ok := d.Percentile(rank)
		switch {
		case !ok:
			return ""
		case r.Validity.Withholds(f.Key(stat)):
			return "–"
		}
		return fmt.Sprintf("%.1f", v)
	}
	p50, p99 := shown("median", 50), shown("p99", 99)
	if p50 == "" || p99 == "" {
		return ""
	}
	return p50 + " / " + p99
}

// failed reports whether a check makes a record invalid or suspect.
func failed(c result.Check) bool {
	return c.Outcome == result.Fail && (c.Severity == result.Invalid || c.Severity == result.Suspect)
}

// ofJob reports whether a warning is of what the job itself looked at.
func ofJob(k result.WarningKind) bool {
	return k == result.CheckFailed || k == result.HookFailed || k == result.NodeUnclean
}

// ofFile reports whether a warning is of a place in a file.
func ofFile(k result.WarningKind) bool {
	return k == result.SecretInLog || k == result.Unreadable || k == result.Truncated || k == result.BadValue
}

// hasCause reports whether a failure with a line is the cause of how a run ended.
func hasCause(r *result.Result) bool {
	f := r.Failure
	return f != nil && f.Line != "" && !(f.Confidence == result.NoCause && r.Status == result.Cancelled)
}

// placeIn is a line of a file; 0: the file.
func placeIn(file string, line int) string {
	if line > 0 {
		return file + ":" + strconv.Itoa(line)
	}
	return file
}
