package sweep

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/source"
)

func read(t testing.TB, name, text string) *Trajectory {
	t.Helper()
	tr, err := Read(name, strings.NewReader(text))
	require.NoError(t, err)
	return tr
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(data)
}

func write(t testing.TB, f Format, l Layout, rows []Observed) string {
	t.Helper()
	out := l.Header(f)
	for _, o := range rows {
		row, err := l.Row(f, o)
		require.NoError(t, err)
		out = append(out, row...)
	}
	return string(out)
}

// plain strips positions, which differ between files.
func plain(rows []Observed) (out []string) {
	for _, o := range rows {
		o.unmeasured()
		out = append(out, fmt.Sprintln(o.Step, o.Key(), o.Observation, o.Reward, o.Verdict, o.Dir))
	}
	return out
}

func TestReadsWhatPythonWrote(t *testing.T) {
	text := testdata(t, "cloudai-trajectory.csv")
	tr := read(t, "trajectory.csv", text)
	require.Equal(t, CloudAI, tr.Format)
	require.Equal(t, []string{"decode.gpu_ids", "decode.tensor_parallel_size", "extra_env_vars.B"}, tr.Dimensions)
	require.Len(t, tr.Rows, 3)
	require.Equal(t, `decode.gpu_ids="0" decode.tensor_parallel_size=1 extra_env_vars.B=x'y`, tr.Rows[0].Label())
	require.Equal(t, []any{1, 123.456, []float64{123.456}, Passed},
		[]any{tr.Rows[0].Step, tr.Rows[0].Reward, tr.Rows[0].Observation, tr.Rows[0].Verdict})
	require.Equal(t, []float64{1e16, 0.5}, tr.Rows[1].Observation)
	require.Equal(t, "'\"\n\té\x00\u2028", tr.Rows[2].Values[2].Value.Any)
	require.Equal(t, Failed, tr.Rows[2].Verdict, "-1 is CloudAI's value of a missing metric")
	require.True(t, math.IsNaN(tr.Rows[2].Observation[0]))
	tr.MetricFailure = -1
	require.Equal(t, text, write(t, CloudAI, tr.Layout, tr.Rows), "and writes the same bytes")

	meta := read(t, "metadata.csv", testdata(t, "cloudai-metadata.csv"))
	require.Equal(t, Metadata, meta.Format)
	at := slices.IndexFunc(meta.Rows, func(o Observed) bool { return o.Step == tr.Rows[1].Step })
	require.Equal(t, "drop=0.001 mode=b", Point{Values: meta.Rows[at].Env}.Label())
	require.Equal(t, testdata(t, "cloudai-metadata.csv"), write(t, Metadata, meta.Layout, meta.Rows))
}

// A later version of CloudAI writes what was drawn beside the observation, and
// its JSON Lines file has CloudAI's keys only.
func TestReadsLaterCloudAI(t *testing.T) {
	tr := read(t, "t.csv", "step,action,reward,observation,env_params\r\n2,{'a': 1},0.5,[0.5],{'drop': 0.0}\r\n")
	require.Equal(t, []string{"drop"}, tr.Env)
	tr = read(t, "t.jsonl", `{"step": 3, "action": {"a": 1, "b": "1"}, "reward": 0.5, "observation": [-1.0]}`+"\n")
	require.Equal(t, `{"a":1,"b":"1"}{}`, tr.Rows[0].Key())
	require.Equal(t, Failed, tr.Rows[0].Verdict)
}

func sample() (Layout, []Observed) {
	v := func(x any) *source.Value { return &source.Value{Any: x} }
	rows := []Observed{
		{Point: Point{Step: 1, Values: []Assignment{{"decode.size", v(int64(1))}, {"bench_cmd_args.x", v("1")}}, Env: []Assignment{{"e", v(1.0)}}},
			Observation: []float64{100.5, 1e-7}, Reward: 100.5, Verdict: Passed, Dir: "s/a/0/1"},
		{Point: Point{Step: 2, Values: []Assignment{{"decode.size", v("a, \"b\" = é\n\r\x00\t<&>")}, {"bench_cmd_args.x", v("")}}, Env: []Assignment{{"e", v(false)}}},
			Observation: []float64{math.NaN(), 3}, Reward: -1, Verdict: Failed, Dir: "s,a/0/2"},
		{Point: Point{Step: 4, Values: []Assignment{{"decode.size", v([]*source.Value{v(int64(1)), v("x"), v(2.5)})}, {"bench_cmd_args.x", v("nan")}}, Env: []Assignment{{"e", v("true")}}},
			Observation: []float64{math.NaN(), math.NaN()}, Reward: -1, Verdict: Refused},
		{Point: Point{Step: 7, Values: []Assignment{{"decode.size", v(1e22)}, {"bench_cmd_args.x", v("[x")}}, Env: []Assignment{{"e", v("0x1p-2")}}},
			Observation: []float64{1e16, 0}, Reward: 1e16, Verdict: Passed, Dir: "d"},
	}
	return Layout{Dimensions: []string{"decode.size", "bench_cmd_args.x"}, Env: []string{"e"},
		Metrics: []string{"throughput", "p99_ttft_ms"}, MetricFailure: -1}, rows
}

func TestWritesWhatItReads(t *testing.T) {
	l, rows := sample()
	for _, f := range []Format{CSV, JSONLines} {
		text := write(t, f, l, rows)
		tr := read(t, "f", text)
		require.Equal(t, f, tr.Format)
		require.Equal(t, plain(rows), plain(tr.Rows))
		tr.MetricFailure = -1
		require.Equal(t, l, tr.Layout)
		require.Equal(t, int64(len(text)), tr.Keep)
		require.Empty(t, tr.Torn)
	}
	tr := read(t, "f", write(t, CloudAI, l, rows))
	require.Len(t, tr.Rows, 3, "a refused point has no row")
	meta := read(t, "m", write(t, Metadata, l, rows))
	drawn := map[int][]Assignment{}
	for _, o := range meta.Rows {
		drawn[o.Step] = o.Env
	}
	for i, o := range []Observed{rows[0], rows[1], rows[3]} {
		require.Equal(t, o.Key(), Point{Values: tr.Rows[i].Values, Env: drawn[o.Step]}.Key())
		require.Equal(t, o.Verdict, tr.Rows[i].Verdict)
	}
}

// What a file looks like is an interface: others read it.
func TestFormats(t *testing.T) {
	l, rows := sample()
	require.Equal(t, "step,decode.size,bench_cmd_args.x,env_params.e,metrics.throughput,metrics.p99_ttft_ms,reward,run_directory,verdict\n"+
		"1,1,\"\"\"1\"\"\",1.0,100.5,1e-07,100.5,s/a/0/1,passed\n", write(t, CSV, l, rows[:1]))
	require.Equal(t, `{"step":1,"action":{"decode.size":1,"bench_cmd_args.x":"1"},"env_params":{"e":1.0},"reward":100.5,"observation":[100.5,1e-07],`+
		`"metrics":["throughput","p99_ttft_ms"],"run_directory":"s/a/0/1","verdict":"passed"}`+"\n",
		write(t, JSONLines, l, rows[:1]))
	require.Equal(t, "step,action,reward,observation\r\n1,\"{'decode.size': 1, 'bench_cmd_args.x': '1'}\",100.5,\"[100.5, 1e-07]\"\r\n"+
		"2,\"{'decode.size': 'a, \"\"b\"\" = é\\n\\r\\x00\\t<&>', 'bench_cmd_args.x': ''}\",-1.0,\"[-1.0, 3.0]\"\r\n", write(t, CloudAI, l, rows[:2]))
	require.Empty(t, Layout{}.Header(Metadata))
}

// The reward of a point that did not pass was not measured, and is no number but in CloudAI's own file:
// with the reward function "negative", -1 would be the best. Older files have it, and it is not taken.
func TestRewardsOfFailedPoints(t *testing.T) {
	l, rows := sample()
	failed := rows[1:3]
	csv, jsonl := write(t, CSV, l, failed), write(t, JSONLines, l, failed)
	require.Contains(t, csv, `,,3.0,,"s,a/0/2",failed`)
	require.Contains(t, csv, ",,,,,refused")
	require.Equal(t, 2, strings.Count(jsonl, `"reward":null`), jsonl)
	old := strings.NewReplacer(`"reward":null`, `"reward":-1.0`, `,3.0,,"s,a`, `,3.0,-1.0,"s,a`, ",,,,,refused", ",,,-1.0,,refused")
	for _, text := range []string{csv, jsonl, old.Replace(csv), old.Replace(jsonl)} {
		for _, o := range read(t, "f", text).Rows {
			require.True(t, math.IsNaN(o.Reward), "%s: %g", text, o.Reward)
		}
		cloud := read(t, "f", text)
		require.Contains(t, write(t, CloudAI, l, cloud.Rows), `,-1.0,"[-1.0, 3.0]"`, "CloudAI reads this file")
	}
	passed := strings.NewReplacer(",100.5,s/a", ",,s/a", `"reward":100.5`, `"reward":null`)
	for _, f := range []Format{CSV, JSONLines} {
		_, err := Read("f", strings.NewReader(passed.Replace(write(t, f, l, rows[:1]))))
		require.Error(t, err, "one that passed has a reward")
	}
}

func TestRowRefusesAnotherSweepsPoint(t *testing.T) {
	l, rows := sample()
	for _, f := range []Format{CSV, JSONLines, CloudAI, Metadata} {
		o := rows[0]
		o.Values = o.Values[:1]
		_, err := l.Row(f, o)
		require.ErrorContains(t, err, "step 1 has 1 values for 2 columns")
		o.Values = []Assignment{rows[0].Values[0], {"other", rows[0].Values[1].Value}}
		_, err = l.Row(f, o)
		require.ErrorContains(t, err, "step 1 has no value for bench_cmd_args.x")
		o = rows[0]
		o.Observation = o.Observation[:1]
		_, err = l.Row(f, o)
		require.ErrorContains(t, err, "1 values for 2 metrics")
		o = rows[0]
		o.Verdict = Pending
		_, err = l.Row(f, o)
		require.ErrorContains(t, err, "step 1 has no result yet")
	}
	_, err := l.Row("xml", rows[0])
	require.ErrorContains(t, err, `unknown trajectory format "xml"`)
}

// A crash can leave a row half written, wherever it was cut.
func TestTornLastLine(t *testing.T) {
	l, rows := sample()
	for _, f := range []Format{CSV, JSONLines, CloudAI, Metadata} {
		whole := write(t, f, l, rows[:3])
		last := write(t, f, l, rows[3:])[len(l.Header(f)):]
		for cut := 1; cut < len(last); cut++ {
			tr := read(t, "f", whole+last[:cut])
			require.Contains(t, tr.Torn, "the last line is incomplete and was left out")
			require.Equal(t, int64(len(whole)), tr.Keep)
			require.Equal(t, plain(read(t, "f", whole).Rows), plain(tr.Rows))
		}
	}
}

func TestReadComplaints(t *testing.T) {
	const cloud, csv = "step,action,reward,observation\n", "step,a,metrics.throughput,reward,run_directory,verdict\n"
	for _, c := range []struct{ text, want string }{
		{"a,b\n1,2\n", `f:1:1: this is not a trajectory: its columns are ["a" "b"]`},
		{"hello", "this is not a trajectory"},
		{"step,a,a,reward,run_directory,verdict\n", `column "a" occurs twice`},
		{"step,metrics.x,a,reward,run_directory,verdict\n", `column "a" is out of order`},
		{"\xff\n", "the trajectory is not UTF-8"},
		{cloud + "1,{},0.5\n", "f:2:1: the row has 3 columns, the header 4"},
		{cloud + "0,{},0.5,[1]\n", `f:2:1: step "0" must be a number, 1 or more`},
		{cloud + "x,{},0.5,[1]\n", `f:2:1: step "x" must be a number, 1 or more`},
		{cloud + "2,{},0.5,[1]\n1,{},1,[1]\n", "f:3:1: step 1 after step 2"},
		{cloud + "1,{},zero,[1]\n", `f:2:6: "zero" is not a number`},
		{cloud + "1,[1],0,[1]\n", "f:2:3: action must be a table of values"},
		{cloud + "1,{'a': None},0,[1]\n", `"a" has no value that a definition can hold`},
		{cloud + "1,{'a': [None]},0,[1]\n", `"a" has no value that a definition can hold`},
		{cloud + "1,{'a': 1},0,['x']\n", "observation must be a list of numbers"},
		{cloud + "1,{'a': 1},0,[1]\n2,{'b': 1},0,[1]\n", "f:3:3: the keys of this row's action differ from those of the first row"},
		{cloud + "1,\"{'a': 1\",0,[1]\n", "not a Python literal: byte 8: expected a comma or '}'"},
		{cloud + "1,\"{'a\": 1\",0,[1]\n", "f:2:7: extraneous or missing"},
		{csv + "1,,5,5,d,passed\n", "f:2:3: a: the value is missing"},
		{csv + "1,[1,5,5,d,passed\n", `f:2:3: a: the value is incomplete`},
		{csv + "1,1,x,5,d,passed\n", `f:2:5: "x" is not a number`},
		{csv + "1,1,5,5,d,done\n", "f:2:11: unknown verdict \"done\""},
		{"{]\n", "f:1:2: expected a string"},
		{"{\"step\": NaN}\n", "f:1:10: NaN is not a JSON number"},
		{"{\"step\": [1,", "f:1:13: the value is incomplete"},
		{"{}\n", `the key "step" is missing`},
		{`{"step":1,"action":{},"reward":1,"observation":[],"stop":1}` + "\n", `unknown key "stop"` + "\n\thint: did you mean \"step\"?"},
		{`{"step":1,"action":{"a":1,"a":2},"reward":1,"observation":[]}` + "\n", `the key "a" occurs twice`},
		{`{"step":1.5,"action":{},"reward":1,"observation":[]}` + "\n", "step must be a whole number"},
		{`{"step":1,"action":{},"reward":null,"observation":[]}` + "\n", "reward must be a number"},
		{`{"step":1,"action":{},"reward":1,"observation":[1],"metrics":["a","b"]}` + "\n", "1 values for 2 metrics"},
		{`{"step":1,"action":{},"reward":1,"observation":[1],"metrics":[1]}` + "\n", "metrics must be a list of strings"},
		{`{"step":1,"action":{"a":99999999999999999999},"reward":1,"observation":[]}` + "\n", "the integer 99999999999999999999 is out of range"},
	} {
		_, err := Read("f", strings.NewReader(c.text))
		require.ErrorContains(t, err, c.want, c.text)
	}
}

func TestPythonLiterals(t *testing.T) {
	for text, want := range map[string]any{
		`1`: int64(1), `-2`: int64(-2), `1.0`: 1.0, `1e-05`: 1e-05, `True`: true, `False`: false, `None`: nil,
		`inf`: math.Inf(1), `-inf`: math.Inf(-1),
		`'a'`: "a", `"it's"`: "it's", `'\x41\u00e9\U0001f600\101\0\\\'\"'`: "Aé😀A\x00\\'\"",
		`[]`: []any{}, `[1, [2.5, 'x'],]`: []any{int64(1), []any{2.5, "x"}}, `()`: []any{}, `(1,)`: []any{int64(1)},
		`(1)`: int64(1), ` ( 1 , 2 ) `: []any{int64(1), int64(2)},
		`{}`: map[string]any{},
		`{'a': {"b": (1, 2)}, 'c': None,}`: map[string]any{"a": map[string]any{"b": []any{int64(1), int64(2)}},
			"c": nil},
	} {
		v, err := parseLiteral(text)
		require.NoError(t, err, text)
		require.Equal(t, want, v.Plain(), text)
	}
	for _, text := range []string{
		"", "[", "[1 2]", "[,]", "(,)", "{1: 2}", "{'a'}", "{'a': }", "{'a': 1 'b': 2}", "{,}", "'", "'a", "'\n'", `'\q'`, `'\x4'`, `'\ud800'`, `'\U00110000'`, `'\`,
		"1 2", "__import__('os')", "1_000", "0x10", "1+2", "nan(1)", "99999999999999999999", "1e999", "b'x'", "true", "[1]]", strings.Repeat("[", 1000), "{'a': 1, 'a': 2}",
	} {
		_, err := parseLiteral(text)
		require.Error(t, err, text)
	}
}

// The right-hand sides are what CPython 3.11.7 prints.
func TestReprIsCPythons(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{1e16, "1e+16"}, {1e15, "1000000000000000.0"}, {123456789012345678.0, "1.2345678901234568e+17"}, {1e-4, "0.0001"}, {1e-5, "1e-05"}, {0.1, "0.1"}, {1.0, "1.0"},
		{math.Copysign(0, -1), "-0.0"}, {1.5e300, "1.5e+300"}, {5e-324, "5e-324"}, {math.Inf(1), "inf"}, {math.NaN(), "nan"}, {1e22, "1e+22"},
		{"a'b", `"a'b"`}, {`a"b`, `'a"b'`}, {`a'"b`, `'a\'"b'`}, {"\n\t\r\\\x00\x7f", `'\n\t\r\\\x00\x7f'`}, {"é", "'é'"}, {"\u2028", `'\u2028'`}, {"😀", "'😀'"},
		{"\u00a0", `'\xa0'`}, {"\u00ad", `'\xad'`}, {"\u0378", `'\u0378'`}, {"\U000e0001", `'\U000e0001'`}, {true, "True"}, {int64(-3), "-3"},
	} {
		require.Equal(t, c.want, string(appendLiteral(nil, &source.Value{Any: c.v})))
	}
}

func FuzzParseLiteral(f *testing.F) {
	tr := read(f, "f", testdata(f, "cloudai-trajectory.csv"))
	for _, o := range tr.Rows {
		row := tr.cloudAI(o)
		f.Add(string(bytes.ReplaceAll(row, []byte(`""`), []byte(`"`))))
	}
	for _, s := range []string{"{'a': [1, 2.5, ('x',)], 'b': {'c': None}}", `'\x41\u00e9\101'`,
		"[nan, -inf, 1e-05, True]", "((1))", "{}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseLiteral(text)
		if err != nil {
			return
		}
		first := appendLiteral(nil, v)
		again, err := parseLiteral(string(first))
		require.NoError(t, err, "%s", first)
		require.Equal(t, string(first), string(appendLiteral(nil, again)))
	})
}

func FuzzRead(f *testing.F) {
	l, rows := sample()
	for _, format := range []Format{CSV, JSONLines, CloudAI, Metadata} {
		f.Add(write(f, format, l, rows))
	}
	f.Add(testdata(f, "cloudai-trajectory.csv"))
	f.Add(testdata(f, "cloudai-metadata.csv"))
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := Read("f", strings.NewReader(text))
		if err != nil {
			return
		}
		require.LessOrEqual(t, tr.Keep, int64(len(text)))
		if tr.Format == "" {
			return
		}
		for _, o := range tr.Rows {
			_, err := tr.Row(tr.Format, o)
			require.NoError(t, err)
		}
		// what a terminal obeys is written escaped
		if tr.Format != CSV && tr.Format != JSONLines || printable.Text(text) != text {
			return
		}
		again, err := Read("f", strings.NewReader(write(t, tr.Format, tr.Layout, tr.Rows)))
		require.NoError(t, err)
		require.Equal(t, plain(tr.Rows), plain(again.Rows))
	})
}
