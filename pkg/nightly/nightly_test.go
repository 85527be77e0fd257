package nightly_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/nightly"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/result"
)

// edit changes one run of a night.
type edit func(*records.Run)

// night is one run of throughput tok/s, TTFT of 100 ms and TPOT of 10 ms.
func night(day int, throughput float64, edits ...edit) nightly.Night {
	res := &result.Result{
		Status: result.Completed, Validity: &result.Validity{Valid: true, Verdict: result.VerdictValid},
		Placement: &result.Placement{Nodes: []string{"n1", "n2"}}, Provenance: &result.Provenance{Image: "vllm:1"},
	}
	res.Results.OutputThroughput = &throughput
	for _, f := range []struct {
		family result.Family
		ms     float64
	}{{result.TTFT, 100}, {result.TPOT, 10}} {
		if err := res.Results.SetLatency(f.family, "median", f.ms); err != nil {
			panic(err)
		}
	}
	r := records.Run{
		Dir: fmt.Sprintf("results/qwen_%d/a/0", day), Case: records.Case{Scenario: "qwen", Test: "a"}, Result: res,
		Settings: map[string]string{"cmd_args.model": "q", "cmd_args.docker_image_url": "vllm:1"},
	}
	for _, e := range edits {
		e(&r)
	}
	return nightly.Night{Root: fmt.Sprintf("results/qwen_%d", day),
		Created: time.Date(2026, 11, day, 3, 0, 0, 0, time.Local), Runs: []records.Run{r}}
}

// before lists nights, newest first, from day 20 down.
func before(throughputs ...float64) []nightly.Night {
	var list []nightly.Night
	for i, x := range throughputs {
		list = append(list, night(20-i, x))
	}
	return list
}

func judge(t *testing.T, n nightly.Night, earlier []nightly.Night) nightly.Verdict {
	t.Helper()
	v, err := nightly.Judge(n, earlier, nightly.Options{
		Baselines: 7,
	})
	require.NoError(t, err)
	return v
}

func lines(v nightly.Verdict) string {
	var b strings.Builder
	for _, c := range v.Changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

func latency(f result.Family, ms float64) edit {
	return func(r *records.Run) {
		if err := r.Result.Results.SetLatency(f, "median", ms); err != nil {
			panic(err)
		}
	}
}

func status(s result.Status) edit { return func(r *records.Run) { r.Result.Status = s } }

func invalid(r *records.Run) {
	r.Result.Validity = &result.Validity{Verdict: result.VerdictInvalid, Words: []string{"zero-tokens"}}
}

func suspect(words ...string) edit {
	return func(r *records.Run) {
		r.Result.Validity = &result.Validity{Valid: true, Verdict: result.VerdictSuspect, Words: words}
	}
}

func simulated(r *records.Run) { r.Result.Simulated = true }

func profiled(r *records.Run) { r.Result.Profiling = &result.Profiling{Enabled: true} }

// quiet is four nights without any spread.
func quiet() []nightly.Night { return before(100, 100, 100, 100) }

func TestNothingChanged(t *testing.T) {
	v := judge(t, night(21, 104.9), before(100, 90, 110, 100))
	require.Empty(t, v.Changes)
	require.Equal(t, "qwen of 2026-11-21 03:00: nothing changed; 1 run, 3 numbers compared with the median of up to 4 nights", v.String())
	require.Empty(t, judge(t, night(21, 98.1), quiet()).Changes,
		"1.9 % is far from nights without spread, and does not matter")
}

// The rule: far by the spread of the nights before, and by more than matters.
//
// covers: PL-Q12, PL-Q15, PL-Q16, PL-D18
func TestNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		night   nightly.Night
		earlier []nightly.Night
		want    string
	}{
		"slower":                {night(21, 94), quiet(), "regressed a: output_throughput 94 tok/s, -6.0 % against 100 (median of 4 nights, z -12.0): nodes n[1-2] (results/qwen_21/a/0)\n"},
		"faster":                {night(21, 106), quiet(), "improved a: output_throughput 106 tok/s, +6.0 % against 100 (median of 4 nights, z +12.0), accuracy-unchecked: nodes n[1-2] (results/qwen_21/a/0)\n"},
		"slower, as nights are": {night(21, 94), before(100, 95, 105, 98, 102, 96, 104), ""},
		"later tokens": {night(21, 100, latency(result.TTFT, 150), latency(result.TPOT, 8)), quiet(),
			"regressed a: median_ttft_ms 150 ms, +50.0 % against 100 (median of 4 nights, z +100.0): nodes n[1-2] (results/qwen_21/a/0)\n" +
				"improved a: median_tpot_ms 8 ms, -20.0 % against 10 (median of 4 nights, z -40.0), accuracy-unchecked: nodes n[1-2] (results/qwen_21/a/0)\n"},
		"later by 4 %":                      {night(21, 100, latency(result.TTFT, 104)), quiet(), ""},
		"median, even":                      {night(21, 100), before(80, 120, 90, 110), ""},
		"the newest row alone says nothing": {night(21, 100), before(50, 100, 101, 99, 100, 102, 98), ""},
		"only the last seven": {night(21, 100), before(100, 100, 100, 100, 100, 100, 100, 1, 1, 1, 1, 1, 1, 1, 1),
			""},
		"another node, another image": {
			night(21, 50, func(r *records.Run) {
				r.Result.Placement.Nodes = []string{"n7"}
				r.Result.Provenance.Image, r.Settings["cmd_args.docker_image_url"] = "vllm:2", "vllm:2"
			}), quiet(),
			"regressed a: output_throughput 50 tok/s, -50.0 % against 100 (median of 4 nights, z -100.0): nodes n7 (previously n[1-2]), image vllm:2 (previously vllm:1) (results/qwen_21/a/0)\n"},
	} {
		require.Equal(t, c.want, lines(judge(t, c.night, c.earlier)), name)
	}
}

// A gain is hollow until tonight and a night before it looked at the answers, on the
// same image with the same flags.
//
// covers: PL-V32
func TestAccuracyUnchecked(t *testing.T) {
	eval := func(r *records.Run) { r.Result.Accuracy = &result.Accuracy{Task: "gsm8k", Value: 0.9} }
	other := func(r *records.Run) {
		r.Case.Test, r.Settings["bench_cmd_args.max_concurrency"] = "eval", "2"
		r.Result.Results = result.Metrics{}
		eval(r)
	}
	checked := before(100, 100, 100)
	checked = append(checked, night(16, 100, eval))
	beside := night(21, 106)
	beside.Runs = append(beside.Runs, night(21, 1, other).Runs...)
	for name, c := range map[string]struct {
		night   nightly.Night
		earlier []nightly.Night
		marks   []report.Mark
	}{
		"none":          {night(21, 106), quiet(), []report.Mark{report.AccuracyUnchecked}},
		"tonight":       {night(21, 106, eval), quiet(), nil}, // the image is the same
		"before":        {night(21, 106), checked, nil},
		"tonight only":  {night(21, 106, eval, func(r *records.Run) { r.Result.Provenance.Image = "vllm:2" }), quiet(), []report.Mark{report.AccuracyUnchecked}},
		"another image": {night(21, 106, func(r *records.Run) { r.Result.Provenance.Image = "vllm:2" }), checked, []report.Mark{report.AccuracyUnchecked}},
		"both":          {night(21, 106, eval, func(r *records.Run) { r.Result.Provenance.Image = "vllm:2" }), checked, nil},
		"another test":  {beside, quiet(), nil},
	} {
		v := judge(t, c.night, c.earlier)
		require.True(t, v.Has(nightly.Improved), name)
		require.Equal(t, c.marks, v.Changes[0].Marks, name)
	}
	require.Empty(t, judge(t, night(21, 94), quiet()).Changes[0].Marks, "a loss needs no proof")
}

// Every run and number is a case.
//
// covers: PL-I2
func TestJUnit(t *testing.T) {
	n := night(21, 94, latency(result.TTFT, 50))
	for i, e := range []edit{invalid, status(result.Cancelled), simulated, suspect("cold")} {
		n.Runs = append(n.Runs, night(21, 1, e, func(r *records.Run) { r.Case.Test = fmt.Sprint("b", i) }).Runs...)
	}
	v := judge(t, n, quiet())
	var out bytes.Buffer
	require.NoError(t, v.JUnit(&out))
	var doc struct {
		Suites []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Class   string    `xml:"classname,attr"`
				Name    string    `xml:"name,attr"`
				Skipped *struct{} `xml:"skipped"`
				Error   *struct{} `xml:"error"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(out.Bytes(), &doc))
	require.Equal(t, "nightly qwen", doc.Suites[0].Name)
	var got []string
	for _, c := range doc.Suites[0].Cases {
		outcome := "passed"
		for name, d := range map[string]*struct{}{"skipped": c.Skipped, "error": c.Error, "failure": c.Failure} {
			if d != nil {
				outcome = name
			}
		}
		got = append(got, strings.Join([]string{c.Class, c.Name, outcome}, " "))
	}
	require.Equal(t, []string{
		"a run passed", "a output_throughput failure", "a median_ttft_ms passed", "a median_tpot_ms passed",
		"b0 run error", "b1 run error", "b2 run passed", "b2 numbers skipped", "b3 run skipped", "b3 numbers skipped",
	}, got)
}

// At the edge of the nights before a number is watched and no news.
//
// covers: PL-Q12
func TestWatch(t *testing.T) {
	nights := before(100, 101, 99, 102, 98, 100, 100) // a MAD of 1
	v := judge(t, night(21, 96), nights)
	require.Empty(t, v.Changes)
	require.Len(t, v.Watch, 1)
	require.InDelta(t, -4/1.4826, v.Watch[0].Z, 1e-9)
	require.Contains(t, v.String(),
		"nothing changed; 1 run, 3 numbers compared with the median of up to 7 nights, 1 to watch")
	require.Empty(t, judge(t, night(21, 98), nights).Watch)
	require.True(t, judge(t, night(21, 94), nights).Has(nightly.Regressed))
}

// Fewer than four nights are no baseline, whatever the number is.
//
// covers: PL-Q12
func TestTooLittleData(t *testing.T) {
	v := judge(t, night(21, 1), before(100, 100, 100))
	require.Empty(t, v.Changes)
	require.Zero(t, v.Compared)
	require.Equal(t, []string{"too little data: 3 of the 4 valid nights that a baseline needs"}, v.Apart)
	require.Contains(t, v.String(), "nothing changed; 1 run, 1 without comparison (too little data: 3 of the 4")
}

func TestTolerance(t *testing.T) {
	v, err := nightly.Judge(night(21, 80), quiet(), nightly.Options{Tolerance: new(25.0), Baselines: 7})
	require.NoError(t, err)
	require.Empty(t, v.Changes)
	require.Contains(t, v.String(), "up to 4 nights, tolerance 25 %")
}

// What is simulated, invalid, suspect, profiled, failed or asked for otherwise is
// no baseline; neither is a withheld number.
func TestNoBaseline(t *testing.T) {
	for name, e := range map[string]edit{
		"simulated": simulated, "invalid": invalid, "suspect": suspect("cold"), "profiled": profiled,
		"failed": status(result.Failed), "partial": status(result.Partial), "unknown": status(result.Unknown),
		"not judged": func(r *records.Run) { r.Result.Validity = nil },
		"imported": func(r *records.Run) {
			p := *r.Result.Provenance
			p.Imported = &result.Imported{From: "llm-d-benchmark"}
			r.Result.Provenance = &p
		},
		"other settings": func(r *records.Run) { r.Settings["cmd_args.model"] = "p" },
		"other test":     func(r *records.Run) { r.Case.Test = "b" },
		"other step":     func(r *records.Run) { r.Case.Step = 2 },
		"no record":      func(r *records.Run) { r.Result, r.Problem = nil, "gone" },
	} {
		v := judge(t, night(21, 100), []nightly.Night{night(20, 1000, e)})
		require.Zero(t, v.Compared, name)
		require.Equal(t, []string{"no earlier valid night with the same settings"}, v.Apart, name)
		require.False(t, v.Has(nightly.Regressed), name)
		v = judge(t, night(21, 100), append([]nightly.Night{night(20, 1000, e)}, quiet()...))
		require.Equal(t, 3, v.Compared, "%s: the nights before that count", name)
		require.False(t, v.Has(nightly.Regressed), name)
	}
	withheld := night(20, 1000, func(r *records.Run) { r.Result.Validity.Withheld = []string{"output_throughput"} })
	require.Equal(t, 2, judge(t, night(21, 100), append(before(100, 100, 100), withheld)).Compared)
	v := judge(t, night(21, 1, simulated), quiet())
	require.Empty(t, v.Changes)
	require.Equal(t, []string{"simulated"}, v.Apart)
	require.Contains(t, v.String(), "1 run, 1 without comparison (simulated)")
}

func TestStates(t *testing.T) {
	failed := night(21, 100, status(result.Failed), func(r *records.Run) {
		r.Result.Failure = &result.Failure{Cause: "oom-gpu", Confidence: result.Exact, Next: "use less\nmemory"}
	})
	v := judge(t, failed, before(100))
	require.Equal(t, "failed a: failed, cause oom-gpu (exact); use less memory (results/qwen_21/a/0)\n", lines(v))
	require.Zero(t, v.Compared)
	inRole := night(21, 100, status(result.Failed), func(r *records.Run) {
		r.Result.Failure = &result.Failure{Cause: "oom-gpu", Confidence: result.Exact, Role: "decode", Node: "n2",
			File: "logs/decode-0.log", LineNumber: 7, Line: "CUDA out of\tmemory", Next: "use less"}
	})
	require.Equal(t, "failed a: failed, cause oom-gpu (exact) in decode on n2: logs/decode-0.log:7: CUDA out of memory; "+
		"use less (results/qwen_21/a/0)\n", lines(judge(t, inRole, before(100))), "an alert says where, with the log's line")
	require.Len(t, nightly.Problems(inRole.Runs), 1)
	require.Empty(t, nightly.Problems(night(21, 100, status(result.Unknown)).Runs), "it is not over")
	v = judge(t, night(21, 1, invalid), before(100))
	require.Equal(t, "invalid a: zero-tokens (results/qwen_21/a/0)\n", lines(v), "its numbers are not compared")
	judged := func(verdict result.Verdict) edit { // with notes and withheld numbers beside
		return func(r *records.Run) {
			r.Result.Validity = &result.Validity{Valid: verdict != result.VerdictInvalid, Verdict: verdict}
			for word, severity := range map[string]result.Severity{"errors": result.Invalid, "cold": result.Suspect,
				"few": result.Withheld, "simulated": result.Note} {
				r.Result.Validity.Words = append(r.Result.Validity.Words, word)
				r.Result.Validity.Checks = append(r.Result.Validity.Checks,
					result.Check{Word: word, Outcome: result.Fail, Severity: severity})
			}
		}
	}
	require.Equal(t, "invalid a: errors (results/qwen_21/a/0)\n",
		lines(judge(t, night(21, 1, judged(result.VerdictInvalid)), before(100))))
	require.Equal(t, "suspect a: cold (results/qwen_21/a/0)\n",
		lines(judge(t, night(21, 100, judged(result.VerdictSuspect)), before(100))))
	detailed := func(r *records.Run) {
		judged(result.VerdictInvalid)(r)
		for i := range r.Result.Validity.Checks {
			r.Result.Validity.Checks[i].Detail = "3 of 80 requests failed"
		}
		r.Result.Failure = &result.Failure{Cause: "kv", Confidence: result.FromSymptom, Role: "prefill", Line: "lost", Next: "x"}
	}
	require.Equal(t, "invalid a: errors: 3 of 80 requests failed; cause kv (symptom) in prefill: lost (results/qwen_21/a/0)\n",
		lines(judge(t, night(21, 1, detailed), before(100))))
	unread := func(file string) edit {
		return func(r *records.Run) {
			r.Result.Status, r.Result.Failure = result.Failed, &result.Failure{Cause: "unknown",
				Confidence: result.NoCause, File: file, Next: "read it"}
		}
	}
	require.Equal(t, "failed a: failed, cause unknown: logs/a.log; read it (results/qwen_21/a/0)\n",
		lines(judge(t, night(21, 1, unread("logs/a.log")), before(100))))
	require.Equal(t, "failed a: failed, cause unknown; read it (results/qwen_21/a/0)\n",
		lines(judge(t, night(21, 1, unread("")), before(100))))
	for name, c := range map[string]struct {
		night   nightly.Night
		earlier nightly.Night
		want    string
	}{
		"still invalid":      {night(21, 1, invalid), night(20, 1, invalid), "invalid a: zero-tokens (results/qwen_21/a/0)\n"},
		"lost":               {night(21, 1, status(result.Unknown)), night(20, 1), "failed a: what became of the job is unknown (results/qwen_21/a/0)\n"},
		"no record":          {night(21, 1, func(r *records.Run) { r.Result, r.Problem = nil, "no result.json" }), night(20, 1), "failed a: no result.json (results/qwen_21/a/0)\n"},
		"works again":        {night(21, 100), night(20, 1, invalid), "recovered a: was invalid the night before (results/qwen_21/a/0)\n"},
		"newly suspect":      {night(21, 100, suspect("cold")), night(20, 100), "suspect a: cold (results/qwen_21/a/0)\n"},
		"suspect as before":  {night(21, 100, suspect("cold")), night(20, 100, suspect("cold")), ""},
		"suspect, otherwise": {night(21, 100, suspect("cold")), night(20, 100, suspect("busy")), "suspect a: cold (results/qwen_21/a/0)\n"},
		"no longer suspect":  {night(21, 100), night(20, 100, suspect("busy")), ""},
	} {
		require.Equal(t, c.want, lines(judge(t, c.night, []nightly.Night{c.earlier})), name)
	}
	v = judge(t, night(21, 50, suspect("cold")), quiet())
	require.True(t, v.Has(nightly.Regressed), "a suspect run is compared, though never a baseline")
}

func TestWorstFirst(t *testing.T) {
	n := night(21, 200)
	for _, e := range []edit{invalid, status(result.Cancelled)} {
		n.Runs = append(n.Runs, night(21, 1, e, func(r *records.Run) { r.Case.Test = "b" }).Runs...)
	}
	v := judge(t, n, quiet())
	var got []nightly.Kind
	for _, c := range v.Changes {
		got = append(got, c.Kind)
	}
	require.Equal(t, []nightly.Kind{nightly.Failed, nightly.Invalid, nightly.Improved}, got)
	require.Equal(t, 3, v.Runs)
	require.Contains(t, v.String(), "3 changes; 3 runs, 3 numbers compared")
	require.Contains(t, judge(t, night(21, 1), quiet()).String(), "1 change;")
}

// A night before in which a number meant something else is no baseline of it.
//
// covers: PL-Q16
func TestRedefinedNumbers(t *testing.T) {
	v := judge(t, night(21, 50, func(r *records.Run) { r.Result.MetricsVersion = result.MetricsVersion + 1 }), quiet())
	require.Empty(t, v.Changes)
	require.Zero(t, v.Compared)
	require.Contains(t, v.String(),
		"1 without comparison (median_tpot_ms: version 2 of the metrics' definitions is unknown to this profllm")
}
