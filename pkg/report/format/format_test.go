package format_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/result"
)

// The forms of a judgement, and the run that stands for a set.
//
// covers: PL-Q18, PL-D17
func TestJudgementForms(t *testing.T) {
	inTemp(t)
	runsOf(t, "one", 7, 1000, 50, 1)
	runsOf(t, "two", 6, 950, 50, 1)
	r := pair(t)
	require.Equal(t, "one/a/6", r.Judgements[0].First.MedianRun, "+0.1 % is the middle of seven")
	require.Equal(t, "two/a/3", r.Judgements[0].Second.MedianRun, "-0.2 % is the lower of the middle two of six")
	var text, page, markdown, csv bytes.Buffer
	require.NoError(t, format.Text(&text, r))
	require.NoError(t, format.Page{}.Write(&page, r))
	require.NoError(t, format.Markdown(&markdown, r))
	require.NoError(t, format.CSV(&csv, r))
	for _, want := range []string{"Verdict: a: regressed", "7 v 6", "median-throughput run one/a/6",
		"second against first: 1 regressed, 4 same within noise"} {
		require.Contains(t, text.String(), want)
		require.Contains(t, page.String(), want)
	}
	require.Contains(t, markdown.String(), "| Throughput (tok/s) | 7 v 6 |")
	require.Equal(t, 14, strings.Count(csv.String(), "\n"), "one line for each run")
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var back report.Report
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, report.Regressed, back.Judgements[0].Metrics[0].Verdict)
	require.Equal(t, 7, back.Judgements[0].First.Jobs)
}

// Every form of a trend.
func TestTrendForms(t *testing.T) {
	inTemp(t)
	nightsOf(t, "one", stepAt(24, 12, 6))
	r := trace(t, []string{"throughput", "median_ttft_ms"}, nil, "one")
	var text, page, markdown, table bytes.Buffer
	require.NoError(t, format.Text(&text, r))
	require.NoError(t, format.Page{}.Write(&page, r))
	require.NoError(t, format.Markdown(&markdown, r))
	require.NoError(t, format.CSV(&table, r))
	require.Regexp(t, `Throughput \(tok/s\) +24 +1059\.\d+ .*improved, accuracy-unchecked +[▁▂▃▄▅▆▇█]{12}\|[▁▂▃▄▅▆▇█]{12}`, text.String())
	require.Contains(t, markdown.String(), "## Trend: a: improved")
	require.Equal(t, 12, bytes.Count(page.Bytes(), []byte(` hollow"`)), "every point of the gain")
	require.Contains(t, page.String(), `<circle class="s1 hollow"`)
	rows, err := csv.NewReader(&table).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+2*24)
	require.Equal(t, []string{"1", "improved"}, rows[13][7:9])
	require.Equal(t, "accuracy-unchecked", rows[13][11])
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var back report.Report
	require.NoError(t, json.Unmarshal(data, &back))
	require.JSONEq(t, toJSON(t, r), toJSON(t, &back))
	require.Equal(t, toJSON(t, r), toJSON(t, trace(t, []string{"throughput", "median_ttft_ms"}, nil, "one")),
		"the same records give the same report")
}

// Every form says the same, and the numbers come last.
//
// covers: PL-V30
func TestDiffForms(t *testing.T) {
	d := diff(t, func(r *result.Result) {
		r.Config.Settings["cmd_args.decode.max_num_seqs"] = "32\x1b[31m|"
		r.Provenance.ImageDigest, r.Simulated = "sha256:2", true
		slowed(r, 0.5)
	})
	var text, page bytes.Buffer
	require.NoError(t, format.Diff(&text, d, "text"))
	require.NoError(t, format.Diff(&page, d, "markdown"))
	for _, want := range []string{
		"SIMULATED: at least one", "different configurations; 3 fields differ\n", "2 settings differ; not causal: a change has no single reason\n", "nothing differs in: load 1, environment 2,",
		"== flags of decode: 1 differ, 0 the same\n", ` 32\u001b[31m|`, "-50.00",
	} {
		require.Contains(t, text.String(), want)
	}
	require.Less(t, strings.Index(text.String(), "== engine"), strings.Index(text.String(), "== numbers"))
	require.Contains(t, page.String(), "## flags of decode: 1 differ, 0 the same\n")
	require.Contains(t, page.String(), "| max\\_num\\_seqs | 64 | 32\\\\u001b\\[31m\\| |\n")
	require.NotContains(t, text.String()+page.String(), "\x1b")
	var out bytes.Buffer
	require.NoError(t, format.Diff(&out, d, "json"))
	var read map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	require.Equal(t, false, read["same_configuration"])
	require.Len(t, read["fingerprints"], 2)
}

// Nothing that a definition or a log says becomes markup, script, or an action
// of the terminal.
func TestHostileNames(t *testing.T) {
	inTemp(t)
	evil := "</script></style></title><script src=//evil.example/x.js>alert(1)</script><img src=x onerror=alert(1)>\"'`{{.}}|\n\x1b[2J\u202e&amp;"
	for i, name := range []string{"a", "b"} {
		dir := fmt.Sprintf("%s/%s/0", root, name)
		p := planOf(dir, evil+name)
		p.Scenario = evil
		p.Env = []plan.Var{{Name: "X", Value: plan.Text(evil + name)}}
		p.Step = i + 1
		p.Loads[0].Values = []plan.Assignment{{Path: "decode." + evil, Value: evil + name}}
		writePlan(t, dir, p)
		r := recordOf(numbers{Throughput: 100, TTFT: 10})
		r.RunID, r.Suite = evil, evil+"/"+evil
		r.Failure = &result.Failure{Cause: evil, Line: evil, Confidence: result.Exact}
		writeRecord(t, dir, r)
	}
	runs := load(t, root)
	rep := report.Build(runs, report.Options{GroupBy: []string{"extra_env_vars.X"}})
	require.Len(t, rep.Comparisons, 2)
	rep.Notes = []string{evil}

	var page bytes.Buffer
	require.NoError(t, format.Page{}.Write(&page, rep))
	html := page.String()
	require.Equal(t, 1, strings.Count(strings.ToLower(html), "<script"))
	require.NotContains(t, html, "<img")
	for _, tag := range regexp.MustCompile(`<[a-zA-Z][^>]*>`).FindAllString(html, -1) {
		require.NotRegexp(t, `(?i)\son[a-z]+\s*=`, tag)
		require.NotRegexp(t, `(?i)\s(src|action)\s*=`, tag)
		require.NotRegexp(t, `(?i)\shref\s*=\s*"[^#.]`, tag, "links lead into the page, or to a relative path")
	}
	for _, c := range []string{"\x1b", "\u202e"} {
		require.NotContains(t, html, c)
		for _, form := range []string{"text", "markdown"} {
			var out bytes.Buffer
			require.NoError(t, format.Write(&out, rep, form))
			require.NotContains(t, out.String(), c)
			require.NotContains(t, out.String(), "\n"+"alert", form)
		}
	}
	var md bytes.Buffer
	require.NoError(t, format.Markdown(&md, rep))
	require.NotContains(t, md.String(), "<script")
	for _, line := range strings.Split(md.String(), "\n") {
		if strings.HasPrefix(line, "| ") {
			require.True(t, strings.HasSuffix(line, " |"), "a row stays on its line: %s", line)
		}
	}

	var out bytes.Buffer
	require.NoError(t, format.CSV(&out, rep))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.Equal(t, printable.Line(evil), rows[1][1])
	out.Reset()
	require.NoError(t, format.JSON(&out, rep))
	var back report.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, toJSON(t, rep), toJSON(t, back))
}

// covers: CD-34
func TestPageNeedsNoNetwork(t *testing.T) {
	inTemp(t)
	night(t)
	var page bytes.Buffer
	require.NoError(t, format.Page{}.Write(&page, report.Build(load(t, root), report.Options{GroupBy: []string{"NUM_NODES"}})))
	html := page.String()
	require.NotRegexp(t, `(?i)src\s*=|href\s*=\s*"[^#]|@import|url\(`, html)
	require.NotRegexp(t, `https?://`, strings.ReplaceAll(html, "http://www.w3.org/2000/svg", ""))
	require.Contains(t, html, "<svg")
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(html)[1]
	sum := sha256.Sum256([]byte(script))
	digest := "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	require.Contains(t, strings.ReplaceAll(html, "&#43;", "+"), digest, "the policy lets the page's own script run")
	for i, group := range []string{"NUM_NODES=2", "NUM_NODES=8", "NUM_NODES=1"} {
		require.Contains(t, html, fmt.Sprintf(`<option value="%d">%s</option>`, i, group))
		require.Regexp(t, fmt.Sprintf(`<section id="s\d+" data-group="%d">`, i), html)
		require.Contains(t, html, fmt.Sprintf(`<tr data-group="%d">`, i))
	}
}

func TestParts(t *testing.T) {
	inTemp(t)
	night(t)
	var out bytes.Buffer
	all := []report.Part{report.PartStatus, report.PartPerTest, report.PartComparison, report.PartSweeps}
	headings := []string{"== Status", "== Results of each test", "== Comparison: ", "== Sweep: "}
	for i, heading := range headings {
		out.Reset()
		require.NoError(t, format.Text(&out, report.Build(load(t, root), report.Options{Without: all[i : i+1]})))
		require.NotContains(t, out.String(), heading)
		for k, other := range headings {
			require.Equal(t, k != i, strings.Contains(out.String(), other), "%s without %s", other, heading)
		}
	}
}

// The page draws throughput and latency over the load, a line for each size.
func TestCurves(t *testing.T) {
	inTemp(t)
	curve(t, []int{1, 2}, 1, [2]int{16, 80}, [2]int{1, 40}, [2]int{4, 40})
	var page bytes.Buffer
	require.NoError(t, format.Page{}.Write(&page, report.Build(load(t, root), report.Options{})))
	html := page.String()
	from := strings.Index(html, ">Throughput by max_concurrency</text>")
	require.Positive(t, from)
	svg, _, _ := strings.Cut(html[from:], "</svg>")
	require.Equal(t, 2, strings.Count(svg, "<polyline"))
	require.Equal(t, 6, strings.Count(svg, "<circle"))
	require.Contains(t, svg, "<title>tensor_parallel_size=2 max_concurrency=16</title>")
	at := 0
	for _, n := range []int{1, 4, 16} { // in the order of the load, not of the steps
		next := strings.Index(svg, fmt.Sprintf("<title>tensor_parallel_size=1 max_concurrency=%d</title>", n))
		require.Greater(t, next, at)
		at = next
	}
	require.Contains(t, html, ">Median TTFT by max_concurrency</text>")

	inTemp(t)
	night(t)
	page.Reset()
	require.NoError(t, format.Page{}.Write(&page, report.Build(load(t, root), report.Options{})))
	require.Contains(t, page.String(), ">Throughput by max_num_seqs</text>", "a sweep of one setting is drawn over it")
}

// Each point and each sentence leads to the files of its run; the text is escaped.
func TestPageLeadsToRuns(t *testing.T) {
	inTemp(t)
	night(t)
	var page bytes.Buffer
	link := func(dir string) string { return `./"` + dir + `"` }
	require.NoError(t, format.Page{Link: link}.Write(&page, report.Build(load(t, root), report.Options{})))
	html := page.String()
	for _, step := range []string{"1", "2", "3", "4"} {
		require.Contains(t, html, `<a href="./%22`+root+`/sweep/0/`+step+`%22">`)
	}
	require.Contains(t, html, `<a href="./%22`+root+`/sweep/0/2%22" title="files of `+root+`/sweep/0/2">files</a>`)
	require.Regexp(t, `<nav>(?s:.*)<a href="#s1">Sweep: sweep</a>`, html)
	require.Less(t, strings.Index(html, "<h2>Answers</h2>"), strings.Index(html, "<svg"))
	require.Less(t, strings.Index(html, "<h2>Tests</h2>"), strings.Index(html, `<h2 id="cloudai">`))
	require.Contains(t, html, "Not drawn, because not valid: max_num_seqs=256.")
}
