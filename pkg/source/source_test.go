package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const doc = `name = "s"

[[Tests]]
id = "a"
  [Tests.cmd_args]
  port = "8300"
  "quoted key" = { x = 1, y = [ 1, "two" ] }
[[Tests]]
id = "b"
  [Tests.cmd_args.prefill]
  tp.size = 3
`

// A NUL byte can be in no argument, variable or path: it is refused where it stands, also in a
// key, a list or a table.
func TestNUL(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\nb = \"x\\u0000\"":      "s.toml:2:1: this text holds a NUL byte",
		"a = [1, { c = \"\\u0000\" }]": "s.toml:1:11: this text holds a NUL byte",
		"[x.y]\n\"k\\u0000\" = 1":      "s.toml:2:1: this text holds a NUL byte",
	} {
		_, err := Parse("s.toml", []byte(text))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `hint: remove \u0000`)
	}
	_, err := Parse("s.toml", []byte(`a = '\u0000'`))
	require.NoError(t, err, "no escape in single quotes")
}

func TestPositions(t *testing.T) {
	table, err := Parse("s.toml", []byte(doc))
	require.NoError(t, err)
	tests := table.Get("Tests").Any.([]*Value)
	require.Len(t, tests, 2)
	at := func(v *Value) string { return v.Pos.String() }
	first, second := tests[0].Any.(*Table), tests[1].Any.(*Table)
	require.Equal(t, "s.toml:4:1", at(first.Get("id")))
	require.Equal(t, "s.toml:9:1", at(second.Get("id")))
	require.Equal(t, "s.toml:8:3", at(tests[1]))
	args := first.Table("cmd_args")
	require.Equal(t, []string{"port", "quoted key"}, args.Keys())
	require.Equal(t, "s.toml:6:3", at(args.Get("port")))
	require.Equal(t, "s.toml:7:20", at(args.Table("quoted key").Get("x")))
	require.Equal(t, "s.toml:7:27", at(args.Table("quoted key").Get("y")))
	require.Equal(t, "s.toml:11:6", at(second.Table("cmd_args").Table("prefill").Table("tp").Get("size")))
}

func TestSyntaxErrorHasPosition(t *testing.T) {
	_, err := Parse("bad.toml", []byte("a = 1\na = 2\n"))
	require.ErrorContains(t, err, "bad.toml:2:")
	_, err = Parse("bad.toml", []byte("x = \n"))
	require.ErrorContains(t, err, "bad.toml:1:")
}

func TestMergeReplacesListsAndKeepsTables(t *testing.T) {
	base, err := Parse("test.toml", []byte("a=1\nl=[1,2]\n[t]\nx=1\ny=2\n"))
	require.NoError(t, err)
	over, err := Parse("scenario.toml", []byte("l=[3]\nz=9\n[t]\ny=5\nw=6\n"))
	require.NoError(t, err)
	m := Merge(base, over)
	require.Equal(t, map[string]any{
		"a": int64(1), "l": []any{int64(3)}, "z": int64(9),
		"t": map[string]any{"x": int64(1), "y": int64(5), "w": int64(6)},
	}, m.Plain())
	require.Equal(t, []string{"x", "y", "w"}, m.Table("t").Keys())
	require.Equal(t, "scenario.toml:4:1", m.Table("t").Get("y").Pos.String())
	require.Equal(t, int64(2), base.Table("t").Get("y").Any, "the base is not changed")
}

type target struct {
	Name  string   `toml:"name,required"`
	Port  int      `toml:"port"`
	Rate  *float64 `toml:"rate"`
	Flag  bool     `toml:"flag"`
	List  []string `toml:"list"`
	Free  *Table   `toml:"free"`
	Inner struct {
		Deep int `toml:"deep"`
	} `toml:"inner"`
}

func TestDecodeCoercesAsCloudAIDoes(t *testing.T) {
	table, err := Parse("t.toml",
		[]byte("name='n'\nport='8300'\nrate=2\nflag='yes'\nlist=['a']\nfree={any=1}\ninner={deep=4}\n"))
	require.NoError(t, err)
	var got target
	require.NoError(t, Decode(table, &got))
	require.Equal(t, 8300, got.Port)
	require.Equal(t, 2.0, *got.Rate)
	require.True(t, got.Flag)
	require.Equal(t, 4, got.Inner.Deep)
	require.Equal(t, []string{"any"}, got.Free.Keys())
}

func TestDecodeReportsEverythingAtOnce(t *testing.T) {
	table, err := Parse("t.toml", []byte("prot = 1\nport = 'x'\nlist = 'a'\n[inner]\ndep = 1\n"))
	require.NoError(t, err)
	err = Decode(table, &target{})
	require.EqualError(t, err, `t.toml:1:1: name is required
t.toml:1:1: unknown key "prot"
	hint: did you mean "port"? known: flag, free, inner, list, name, port, rate
t.toml:2:1: port must be an integer, not the string "x"
t.toml:3:1: list must be a list, not the string "a"
	hint: write list = ["a"]
t.toml:5:1: unknown key "dep" in [inner]
	hint: did you mean "deep"? known: deep`)
}

func TestDecodeRefusesIntegerForString(t *testing.T) {
	table, err := Parse("t.toml", []byte("name = 1\n"))
	require.NoError(t, err)
	require.ErrorContains(t, Decode(table, &target{}), "t.toml:1:1: name must be a string, not the integer 1")
}

func TestNearest(t *testing.T) {
	known := []string{"vllm", "dynamo", "sglang", "tensor_parallel_size"}
	require.Equal(t, "vllm", Nearest("vlm", known))
	require.Equal(t, "vllm", Nearest("lvlm", known))
	require.Equal(t, "tensor_parallel_size", Nearest("tensor-paralel-size", known))
	require.Equal(t, "", Nearest("kubernetes", known))
}

func TestSuggestByPart(t *testing.T) {
	known := []string{"mean_ttft_ms", "median_tpot_ms", "mean_tpot_ms"}
	const list = "known: mean_tpot_ms, mean_ttft_ms, median_tpot_ms"
	require.Equal(t, `did you mean "mean_tpot_ms" or "median_tpot_ms"? `+list, Suggest("tpot", known))
	require.Equal(t, `did you mean "mean_ttft_ms"? `+list, Suggest("TTFT", known))
	require.Equal(t, list, Suggest("accuracy", known))
	for i := range 9 {
		known = append(known, fmt.Sprintf("other%d_ms", i))
	}
	require.Equal(t, `did you mean "mean_tpot_ms" or "median_tpot_ms"?`, Suggest("tpot", known))
	require.NotContains(t, Suggest("ms", known), "did you mean", "too many have it")
}

// A name is recognized by its parts in any order, each with a slip. Of a long list, only the
// names that are least unlike it are shown.
func TestSuggestFromALongList(t *testing.T) {
	known := []string{"mean_ttft_ms", "p99_ttft_ms", "p99_tpot_ms", "bench_cmd_args.max_concurrency"}
	require.Equal(t, "known: bench_cmd_args.max_concurrency, mean_ttft_ms, p99_tpot_ms, p99_ttft_ms", Suggest("nothing", known))
	for i := range 40 {
		known = append(known, fmt.Sprintf("offline.startup.other%d_s", i))
	}
	require.Equal(t, `did you mean "p99_ttft_ms"?`, Suggest("ttft_p99", known))
	require.Equal(t, `did you mean "mean_ttft_ms" or "p99_ttft_ms"?`, Suggest("tttft", known))
	require.Equal(t, `did you mean "bench_cmd_args.max_concurrency"?`, Suggest("max-concurency", known))
	hint := Suggest("p99ttft", known)
	require.Contains(t, hint, "known: ")
	require.Contains(t, hint, "p99_ttft_ms")
	require.Contains(t, hint, " and 36 more")
	require.Less(t, len(hint), 250)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(doc))
	f.Add([]byte("a = [ { b = 1 }, { b = 2 } ]\n[[c.d]]\n[[c.d.e]]\nx=1"))
	for _, slip := range []string{"\x01", "a = \"\\q", "a = 'x\ny'", "[[a]]\n[a]", "a = [1,\n[b", "a = “x”", "[a]b",
		"a = 1,5", "a b = 1"} {
		f.Add([]byte(slip))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Parse("f.toml", data)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotNil(t, table)
		Merge(table, table)
		var got target
		_ = Decode(table, &got)
	})
}

// The positions are those of the parser, and a document of many keys takes time in proportion.
func TestPositionsAreTheParsers(t *testing.T) {
	data := []byte("a = 1\r\n\n[b]\nc.d = 2\n\"é\" = 3\n[[e]]\nf = [1,\n 2]\n[[e]]\nf = { g = 1, h = 2 }")
	w := walk("t.toml", data)
	require.Greater(t, len(w.index), 8)
	w.p.Reset(data)
	for w.p.NextExpression() {
		for it := w.p.Expression().Key(); it.Next(); {
			s := w.p.Shape(it.Node().Raw).Start
			require.Equal(t, Pos{File: "t.toml", Line: s.Line, Col: s.Column}, w.pos(it.Node()))
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, tests := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("tests=%d", tests), func(b *testing.B) {
			var text strings.Builder
			for i := range tests {
				fmt.Fprintf(&text, "[[Tests]]\nid = \"t%d\"\ntime_limit = \"1m\"\n", i)
			}
			data := []byte(text.String())
			for b.Loop() {
				if _, err := Parse("t.toml", data); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(tests), "µs/test")
		})
	}
}
