package lmeval_test

import (
	"encoding/base64"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/bench/lmeval"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/validity"
)

func sample(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/lm_eval_gsm8k.json")
	require.NoError(t, err)
	return string(data)
}

func parse(text string) (result.Part, error) {
	return lmeval.Parser{Dir: "raw"}.Parse(fstest.MapFS{"raw/results_2026-11-22T01-18-52.123456.json": {Data: []byte(text)}})
}

func kinds(p result.Part) (list []result.WarningKind) {
	for _, w := range p.Warnings {
		list = append(list, w.Kind)
	}
	return list
}

// covers: PL-I3
func TestGSM8K(t *testing.T) {
	p, err := lmeval.Parser{Dir: "testdata"}.Parse(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, p.Warnings)
	require.Nil(t, p.Metrics)
	require.Equal(t, "Qwen/Qwen3-8B", p.Model)
	stderr := 0.01175686434407737
	strict := 0.0120251458673329
	require.Equal(t, &result.Accuracy{
		Program: "lm-eval", Task: "gsm8k", Metric: "exact_match", Filter: "flexible-extract", Value: 0.7604245640636846,
		Stderr:    &stderr,
		Questions: new(1319), TaskQuestions: new(1319), Shots: new(5), Duration: new(212.604418), Source: "lm_eval_gsm8k.json",
		Others: []result.Score{{Task: "gsm8k", Metric: "exact_match", Filter: "strict-match", Value: 0.7437452615617892,
			Stderr: &strict, Questions: new(1319)}},
	}, p.Accuracy)
	r := &result.Result{}
	r.Merge(p)
	v := validity.Judge(r, validity.Evidence{Planned: validity.Planned{NoBenchmark: true}})
	require.Equal(t, result.VerdictValid, v.Verdict, "%v", v.Words)
}

func TestWhichIsChosen(t *testing.T) {
	for _, c := range []struct {
		name, results, more  string
		task, metric, filter string
		others               int
		stderr               bool
	}{
		{"one filter", `{"gsm8k": {"exact_match,strict-match": 0.5, "exact_match_stderr,strict-match": "N/A"}}`, "", "gsm8k", "exact_match", "strict-match", 0, false},
		{"gsm8k behind others", `{"arc": {"acc,none": 0.3}, "gsm8k": {"exact_match,flexible-extract": 0.5}}`, "", "gsm8k", "exact_match", "flexible-extract", 1, false},
		{"no filter", `{"hellaswag": {"alias": "x", "sample_len": 10, "acc,none": 0.5, "acc_stderr,none": 0.01, "acc_norm,none": 0.6}}`, "", "hellaswag", "acc", "", 1, true},
		{"before 0.4", `{"piqa": {"acc": 0.5, "acc_stderr": 0.01}}`, "", "piqa", "acc", "", 0, true},
		{"no share first", `{"wiki": {"word_perplexity,none": 9.5, "acc,none": 0.5}}`, "", "wiki", "acc", "", 1, false},
		{"lower is better", `{"x": {"bits,none": 0.5, "acc,none": 0.25}}`, `"higher_is_better": {"x": {"bits": false, "acc": true}},`, "x", "acc", "", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parse(`{"results": ` + c.results + `, ` + c.more + ` "versions": {}, "n-shot": {}}`)
			require.NoError(t, err)
			require.Empty(t, p.Warnings)
			a := p.Accuracy
			require.Equal(t, []string{c.task, c.metric, c.filter}, []string{a.Task, a.Metric, a.Filter})
			require.Len(t, a.Others, c.others)
			require.Equal(t, c.stderr, a.Stderr != nil)
		})
	}
}

func TestOddFiles(t *testing.T) {
	good := sample(t)
	for _, c := range []struct {
		name, text string
		want       []result.WarningKind
		err        string
		none       bool
	}{
		{"cut short", good[:400], []result.WarningKind{result.Truncated}, ".json:16:23: the file ends", false},
		{"text behind it", good + "}", []result.WarningKind{result.BadValue}, "text after the end", false},
		{"no JSON", "boom", []result.WarningKind{result.BadValue}, ".json:1:1", false},
		{"of another program", `{"results": {"a": {"acc": 1}}}`, nil, "", true},
		{"nothing but a perplexity", `{"results": {"a": {"ppl,none": 9}}, "versions": {}}`, []result.WarningKind{result.BadValue}, "", true},
		{"NaN", strings.Replace(good, "0.7604245640636846", "NaN", 1), []result.WarningKind{result.NotFinite}, "", false},
		{"a duration that is none", strings.Replace(good, `"212.604418"`, `"long"`, 1), []result.WarningKind{result.NoNumber}, "", false},
		{"half a question", strings.Replace(good, `"effective": 1319`, `"effective": 1.5`, 1), []result.WarningKind{result.NoNumber}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parse(c.text)
			require.Equal(t, c.want, kinds(p))
			switch {
			case c.none:
				require.ErrorIs(t, err, fs.ErrNotExist)
			case c.err != "":
				require.ErrorContains(t, err, c.err)
				require.Nil(t, p.Accuracy)
			default:
				require.NoError(t, err)
				require.NotNil(t, p.Accuracy)
			}
		})
	}
	_, err := parse(good)
	require.NoError(t, err)
	_, err = lmeval.Parser{}.Parse(fstest.MapFS{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestTheNewest(t *testing.T) {
	p, err := lmeval.Parser{}.Parse(fstest.MapFS{
		"results_2026-11-22T01-18-52.json": {Data: []byte("{")},
		"results_2026-11-23T01-18-52.json": {Data: []byte(sample(t))},
	})
	require.NoError(t, err)
	require.Equal(t, "results_2026-11-23T01-18-52.json", p.Accuracy.Source)
	require.Equal(t, []result.WarningKind{result.Appended}, kinds(p))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample(f)))
	f.Add([]byte(`{"results": {"a": {"acc,none": 1e-400, "acc_stderr,none": NaN}}, "versions": {}, "n-shot": {"a": -1}, "total_evaluation_time_seconds": "1e999"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parse(string(data))
		require.Equal(t, err == nil, p.Accuracy != nil)
		if err != nil {
			return
		}
		r := &result.Result{RunID: "x", Status: result.Completed}
		r.Merge(p)
		r.Validity = validity.Judge(r, validity.Evidence{})
		_, err = resulttest.Marshal(r)
		require.NoError(t, err, "whatever was read can be written")
	})
}

// A limit is of questions from 1 on, and a share of them below.
func TestLimit(t *testing.T) {
	for limit, want := range map[string]int{"100": 1, "1318.0": 1, "1319": 0, "2000": 0, "0.5": 0, "null": 0,
		"[1]": 0} {
		p, err := parse(strings.Replace(sample(t), `"limit": null`, `"limit": `+limit, 1))
		require.NoError(t, err)
		require.Len(t, p.Warnings, want, limit)
	}
}

// What lm-eval 0.4.13 wrote of a real vLLM: its folder of the model, its values and errors, what a
// limit leaves, and which of several tasks is the record's.
//
// covers: PL-I3
func TestReal(t *testing.T) {
	for _, c := range []struct {
		name, task, metric, filter    string
		value, stderr                 float64
		questions, whole, shots, more int
	}{
		{"quarter", "gsm8k_local", "exact_match", "flexible-extract", 0.25, 0.06933752452815363, 40, 40, 5, 1},
		{"limit", "gsm8k_local", "exact_match", "flexible-extract", 0.3, 0.15275252316519464, 10, 40, 5, 1},
		{"several", "choice_local", "acc", "", 0.65, 0.1094243309804831, 20, 20, 0, 6},
		{"group", "both_local", "acc", "", 0.65, 0.1094243309804831, 20, 0, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := lmeval.Parser{Dir: c.name}.Parse(os.DirFS("testdata/real"))
			require.NoError(t, err)
			require.Empty(t, p.Warnings)
			require.Equal(t, "tiny", p.Model)
			a := p.Accuracy
			require.Equal(t, []string{c.task, c.metric, c.filter}, []string{a.Task, a.Metric, a.Filter})
			require.InDelta(t, c.value, a.Value, 1e-15)
			require.InDelta(t, c.stderr, *a.Stderr, 1e-15)
			require.Equal(t, c.questions, *a.Questions)
			if c.whole == 0 {
				require.Nil(t, a.TaskQuestions, "the metric is of some of the group's tasks")
				require.Nil(t, a.Shots)
			} else {
				require.Equal(t, []int{c.whole, c.shots}, []int{*a.TaskQuestions, *a.Shots})
			}
			require.Len(t, a.Others, c.more)
			if c.name == "limit" { // the folder has the samples as well
				require.Equal(t, 10, a.Answers.Questions)
				require.Equal(t, []byte{1<<0 | 1<<4, 1 << 0}, bits(t, a.Answers.Right), "the first, fifth and ninth")
			}
			r := &result.Result{}
			r.Merge(p)
			v := validity.Judge(r, validity.Evidence{Planned: validity.Planned{NoBenchmark: true, Accuracy: true}})
			require.Equal(t, result.VerdictValid, v.Verdict, "%v", v.Words)
		})
	}
}

// Of a group, the questions are those of its metric, and those of all its tasks, in groups within
// it as well.
func TestGroups(t *testing.T) {
	const text = `{"results": {"a": {"acc,none": 0.5}, "b": {"acc,none": 1.0}, "c": {"acc,none": 0.0},
		"outer": {"acc,none": 0.6, "sample_count": {"acc,none": 100}}, "inner": {"acc,none": 0.75, "sample_count": {"acc,none": 60}}},
		"group_subtasks": {"inner": ["a", "b"], "outer": ["inner", "c"]}, "n-shot": {},
		"n-samples": {"a": {"original": 50, "effective": 30}, "b": {"original": 30, "effective": 30}, "c": {"original": 40, "effective": 40}}}`
	p, err := parse(text)
	require.NoError(t, err)
	require.Empty(t, p.Warnings)
	require.Equal(t, []any{"outer", 0.6, 100, 120},
		[]any{p.Accuracy.Task, p.Accuracy.Value, *p.Accuracy.Questions, *p.Accuracy.TaskQuestions})
	require.Len(t, p.Accuracy.Others, 4)
	circle := strings.Replace(text, `"inner": ["a", "b"]`, `"inner": ["a", "b", "outer"]`, 1)
	p, err = parse(circle)
	require.NoError(t, err)
	require.Equal(t, "a", p.Accuracy.Task)
}

func bits(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return data
}
