package format_test

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
)

// cases reads the outcomes of a JUnit document, by suite; pkg/junit tests its form.
func cases(t *testing.T, r *report.Report) map[string][]string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, format.JUnit(&out, r))
	var doc struct {
		Suites []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name   string `xml:"name,attr"`
				Detail []struct {
					XMLName xml.Name
					Message string `xml:"message,attr"`
				} `xml:",any"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(out.Bytes(), &doc))
	list := map[string][]string{}
	for _, s := range doc.Suites {
		for _, c := range s.Cases {
			text := c.Name
			for _, d := range c.Detail {
				text += " " + d.XMLName.Local + ": " + d.Message
			}
			list[s.Name] = append(list[s.Name], text)
		}
	}
	return list
}

// A regression is a failing case, what is not known yet is skipped, what must not be
// compared is an error.
//
// covers: PL-I2
func TestReportJUnit(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(12, 12, 0))
	nightsOf(t, "two", stepAt(12, 0, -6))
	got := cases(t, pair(t))["compare a"]
	require.Len(t, got, 5)
	require.Regexp(t, `^output_throughput failure: regressed; 12 v 12, shift -6\.00 % \[-\d`, got[0])
	require.Equal(t, "median_ttft_ms", got[1])

	nightsOf(t, "six", stepAt(2, 0, -6))
	r, err := report.Pair(load(t, "one"), load(t, "six"), nil)
	require.NoError(t, err)
	require.Regexp(t, `^output_throughput skipped: too little data: the data neither show nor exclude a difference above 2 %; 12 v 2`, cases(t, r)["compare a"][0])

	nightsOf(t, "six", stepAt(6, 6, 0), func(_ int, r *result.Result) { r.System.HardwareInfo.GPU = "H200" })
	r, err = report.Pair(load(t, "one"), load(t, "six"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"verdict error: GPU: H100 against H200"}, cases(t, r)["compare a"])

	nightsOf(t, "six", stepAt(6, 6, 0), func(_ int, r *result.Result) { r.Validity = nil })
	r, err = report.Pair(load(t, "one"), load(t, "six"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"verdict error: a side has no valid run"}, cases(t, r)["compare a"])
	require.Equal(t, []string{"runs error: there is no valid run"}, cases(t, trace(t, nil, nil, "six"))["trend"])

	nightsOf(t, "two", stepAt(24, 12, -6))
	got = cases(t, trace(t, nil, nil, "two"))["trend a"]
	require.Equal(t, []string{"output_throughput failure: regressed; last change -6.00 % at 2026-01-14 03:00",
		"median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms"}, got)
	require.Contains(t, cases(t, trace(t, nil, nil, "one"))["trend a"][0],
		"skipped: too little data: 12 points, but at least 13 are needed to show a change")
}

// lintNames are promtool's rules on names that a gauge can break, as far as they do
// not need a list of units.
func lintNames(t *testing.T, name, help, kind string) {
	t.Helper()
	require.Regexp(t, `^profllm_[a-z0-9_]+$`, name)
	require.Equal(t, "gauge", kind, name)
	require.Regexp(t, `^\S.*\.$`, help, name)
	require.NotRegexp(t, `_(total|bucket|count|sum)$`, name, "a suffix of other types")
	require.NotRegexp(t, `(^|_)(gauge|counter|histogram|summary)(_|$)`, name, "the type is no part of a name")
	require.NotRegexp(t, `(^|_)(s|ms|us|ns|sec|milliseconds|percent|kb|mb|gb|minutes|hours|tok|req)(_|$)`, name,
		"base units, not abbreviated")
}

var metaLine = regexp.MustCompile(`^# (HELP|TYPE) (\S+) (.*)$`)

// page reads a page with promtext, and holds its form against the format: every name
// once, HELP and TYPE before its samples, no times, no series twice.
func page(t *testing.T, r *report.Report) *promtext.Snapshot {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, format.Prometheus(&out, r))
	help, kind, seen := map[string]string{}, map[string]string{}, map[string]bool{}
	current := ""
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.True(t, strings.HasSuffix(out.String(), "\n"))
	for i, line := range lines {
		if m := metaLine.FindStringSubmatch(line); m != nil {
			if m[1] == "HELP" {
				require.NotContains(t, help, m[2], "a name comes once")
				help[m[2]], current = m[3], m[2]
				continue
			}
			require.Equal(t, current, m[2])
			kind[m[2]] = m[3]
			lintNames(t, m[2], help[m[2]], m[3])
			require.Less(t, i+1, len(lines), "a name has samples")
			continue
		}
		name, rest, ok := strings.Cut(line, "{")
		require.True(t, ok, line)
		require.Equal(t, current, name)
		require.NotEmpty(t, kind[name])
		require.Regexp(t, `\} \S+$`, rest, "a value, and no time")
		id := line[:strings.LastIndex(line, " ")]
		require.False(t, seen[id], "twice: %s", id)
		seen[id] = true
	}
	s, err := promtext.Read(&out)
	require.NoError(t, err)
	return s
}

func value(t *testing.T, s *promtext.Snapshot, name string, labels ...promtext.Label) float64 {
	t.Helper()
	v, ok := s.Sum(name, labels...)
	require.True(t, ok, name)
	return v
}

// covers: PL-I2
func TestPrometheus(t *testing.T) {
	inTemp(t)
	weird := "a \"b\"\\n\n\xff"
	nightsOf(t, "one", stepAt(3, 2, 5), func(i int, r *result.Result) {
		r.Provenance.ImageDigest = weird
		r.Validity.Withheld = []string{"p99_ttft_ms"}
	})
	nightsOf(t, "two", []float64{500}, func(_ int, r *result.Result) {
		r.Simulated = true
		r.Accuracy = &result.Accuracy{Task: "gsm8k", Value: 0.9, Questions: new(1319), Source: "x"}
	})
	nightsOf(t, "six", []float64{100, 200}, func(i int, r *result.Result) {
		r.Config.Benchmark.MaxConcurrency = new(2)
		if i == 1 {
			r.Validity = &result.Validity{Verdict: result.VerdictInvalid, Checks: []result.Check{}}
		}
	})
	s := page(t, report.Build(load(t, "one", "two", "six"), report.Options{}))
	measured, simulated := promtext.Label{Name: "simulated", Value: "false"}, promtext.Label{Name: "simulated",
		Value: "true"}
	require.InDelta(t, 1050*(1+noise[2]/100), value(t, s, "profllm_output_tokens_per_second", measured), 1e-9,
		"the newest, and none of an invalid run")
	require.InDelta(t, 500, value(t, s, "profllm_output_tokens_per_second", simulated), 1e-9)
	require.InDelta(t, 0.05*(1+noise[10]/100)-0.001,
		value(t, s, "profllm_time_to_first_token_seconds", measured, promtext.Label{Name: "stat", Value: "median"}),
		1e-9)
	_, ok := s.Sum("profllm_time_to_first_token_seconds", measured, promtext.Label{Name: "stat", Value: "p99"})
	require.False(t, ok, "withheld")
	require.InDelta(t, 1, value(t, s, "profllm_completed_requests_ratio", measured), 1e-12)
	require.InDelta(t, 0.9, value(t, s, "profllm_accuracy_ratio", simulated), 1e-12)
	require.InDelta(t, 1, value(t, s, "profllm_run_valid", measured), 1e-12, "one of two series")
	require.InDelta(t, 4, value(t, s, "profllm_runs", measured, promtext.Label{Name: "verdict", Value: "valid"}), 1e-12)
	require.InDelta(t, 1, value(t, s, "profllm_run_info",
		promtext.Label{Name: "digest", Value: "a \"b\"\\n\\u000a\uFFFD"}), 1e-12,
		"escaped and read back, the line end harmless")
	require.Equal(t, float64(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Unix()),
		value(t, s, "profllm_run_start_timestamp_seconds", simulated))
}

// covers: PL-I2
func TestOtava(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(9, 9, 0), func(i int, r *result.Result) {
		if i == 4 {
			r.Validity.Withheld = []string{"p99_ttft_ms"}
		}
		if i == 5 {
			suspected(r)
		}
	})
	nightsOf(t, "two", stepAt(3, 3, 0), func(_ int, r *result.Result) {
		r.Config.Benchmark.MaxConcurrency = new(2)
		r.Accuracy = &result.Accuracy{Task: "gsm8k", Value: 0.9, Questions: new(1319), Source: "x"}
	})
	var out bytes.Buffer
	gaps, err := format.Otava(&out, report.Build(load(t, "two", "one"), report.Options{}))
	require.NoError(t, err)
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+8+3, "a suspect run is in no series")
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	require.Equal(t, []string{"time", "branch"}, rows[0][:2])
	branches, last := map[string]int{}, map[string]string{}
	for _, row := range rows[1:] {
		b := row[at["branch"]]
		require.NotContains(t, b, " ")
		require.Greater(t, row[at["time"]], last[b], "oldest first")
		last[b] = row[at["time"]]
		branches[b]++
		require.NotEmpty(t, row[at["output_throughput"]])
		require.Equal(t, strings.HasPrefix(row[at["run"]], "one"), row[at["p99_ttft_ms"]] == "",
			"a gap empties the column of its series")
		require.Equal(t, strings.HasPrefix(row[at["run"]], "one"), row[at["accuracy"]] == "")
	}
	require.Len(t, branches, 2)
	require.Len(t, gaps, 1)
	require.Regexp(t, `^p99_ttft_ms of /a/[0-9a-f]{16}: 7 of 8 runs have it$`, gaps[0])
}

// A metric that means something else in one of the records is no passed case, and a
// comparison of nothing but such metrics is an error.
//
// covers: PL-I2
func TestJUnitRedefined(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(6, 6, 0))
	nightsOf(t, "two", stepAt(6, 6, 0), func(_ int, r *result.Result) { r.MetricsVersion = result.MetricsVersion + 1 })
	r := pair(t)
	require.Equal(t, report.NotComparable, r.Judgements[0].Verdict)
	got := cases(t, r)["compare a"]
	require.Equal(t, "verdict error: every metric is defined differently in one of the records", got[0])
	require.Contains(t, got[1],
		"output_throughput skipped: version 2 of the metrics' definitions is unknown to this profllm")
}

// A case of pairs says by what the pairs decided, not by how much the two sets differ.
//
// covers: PL-I2, PL-Q13
func TestJUnitOfPairs(t *testing.T) {
	inTemp(t)
	turns(t, 6, 5, 4)
	r := confirm(t, "output_throughput")
	v := r.Judgements[0].Metrics[0]
	require.NotEqual(t, *v.Low, *v.Paired.Low)
	require.Contains(t, cases(t, r)["compare a"][0],
		fmt.Sprintf("; 6 pairs, shift %+.2f %% [%+.2f, %+.2f]", *v.Paired.Percent, *v.Paired.Low, *v.Paired.High))
}

// A run whose start nobody knows has none on the page.
//
// covers: PL-I2
func TestPrometheusWithoutTime(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(1, 1, 0), func(_ int, r *result.Result) { r.Timestamp = time.Time{} })
	var out bytes.Buffer
	require.NoError(t, format.Prometheus(&out, report.Build(load(t, "one"), report.Options{})))
	require.Contains(t, out.String(), "profllm_run_valid{")
	require.NotContains(t, out.String(), "profllm_run_start_timestamp_seconds")
}
