package promtext_test

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/promtext"
)

func read(t *testing.T, page string) *promtext.Snapshot {
	t.Helper()
	s, err := promtext.Read(strings.NewReader(page))
	require.NoError(t, err)
	return s
}

func TestRealPage(t *testing.T) {
	f, err := os.Open("testdata/metrics.prom")
	require.NoError(t, err)
	defer f.Close()
	s, err := promtext.Read(f)
	require.NoError(t, err)

	for name, want := range map[string]float64{
		"vllm:prompt_tokens_total":           4160,
		"vllm:generation_tokens_total":       2048,
		"vllm:request_success_total":         64, // five reasons
		"vllm:request_prompt_tokens_sum":     4160,
		"vllm:iteration_tokens_total_count":  405,
		"vllm:prompt_tokens_by_source_total": 4160,
	} {
		got, ok := s.Sum(name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	got, ok := s.Sum("vllm:request_success_total", promtext.Label{Name: "finished_reason", Value: "length"})
	require.True(t, ok)
	require.Equal(t, 64.0, got)
	_, ok = s.Sum("vllm:nixl_num_failed_transfers_total")
	require.False(t, ok, "absent is not zero")
}

func TestSample(t *testing.T) {
	tests := []struct {
		name, line string
		want       promtext.Sample
	}{
		{"bare", "up 1", promtext.Sample{Name: "up", Value: 1}},
		{"time", "up 1 1395066363000", promtext.Sample{Name: "up", Value: 1}},
		{"labels", `a{x="1", y="2",} 3e2`, promtext.Sample{Name: "a", Labels: []promtext.Label{{"x", "1"}, {"y", "2"}}, Value: 300}},
		{"escapes", `a{p="C:\\d\"q\"\n"} 1`, promtext.Sample{Name: "a", Labels: []promtext.Label{{"p", "C:\\d\"q\"\n"}}, Value: 1}},
		{"brace in value", `a{p="}{=,"} 1`, promtext.Sample{Name: "a", Labels: []promtext.Label{{"p", "}{=,"}}, Value: 1}},
		{"space before brace", `a {p="q"} +Inf`, promtext.Sample{Name: "a", Labels: []promtext.Label{{"p", "q"}}, Value: math.Inf(1)}},
		{"empty labels", "a{} 2", promtext.Sample{Name: "a", Value: 2}},
		{"crlf", "a 2\r", promtext.Sample{Name: "a", Value: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := read(t, tt.line+"\n")
			require.Equal(t, []promtext.Sample{tt.want}, s.Samples())
		})
	}
}

func TestBadLinesAreReportedAndSkipped(t *testing.T) {
	page := "good 1\nnovalue\n9bad 1\nx{a=1} 2\nx{a=\"open} 2\nx nope\nx 1 2 3\nlast 2\n"
	s, err := promtext.Read(strings.NewReader(page))
	require.Len(t, s.Samples(), 2)
	for _, line := range []string{"line 2:", "line 3:", "line 4:", "line 5:", "line 6:", "line 7:"} {
		require.ErrorContains(t, err, line)
	}
	require.NotContains(t, err.Error(), "line 8:")
}

func TestLongLineEndsTheScan(t *testing.T) {
	s, err := promtext.Read(strings.NewReader("a 1\nb{x=\"" + strings.Repeat("y", 2<<20) + "\"} 1\n"))
	require.Error(t, err)
	require.Len(t, s.Samples(), 1)
}

const before = `# TYPE req_total counter
req_total{engine="0"} 10
req_total{engine="1"} 5
# TYPE running gauge
running 7
# TYPE ttft histogram
ttft_sum 1.5
ttft_count 3
process_start_time_seconds 100
`

// covers: PL-V19
func TestSub(t *testing.T) {
	tests := []struct {
		name, after string
		want        float64 // of req_total
		resets      []string
		gone        []string
	}{
		{"growth", strings.NewReplacer(`"0"} 10`, `"0"} 14`, `"1"} 5`, `"1"} 6`).Replace(before), 5, nil, nil},
		{"still", before, 0, nil, nil},
		{"label order does not matter", before, 0, nil, nil},
		{"new engine", strings.Replace(before, "# TYPE running", "req_total{engine=\"2\"} 4\n# TYPE running", 1), 4, nil, nil},
		{"fell", strings.Replace(before, `"0"} 10`, `"0"} 3`, 1), 3, []string{"req_total"}, nil},
		{"gauge may fall", strings.Replace(before, "running 7", "running 0", 1), 0, nil, nil},
		{"new process, same numbers", strings.Replace(before, "seconds 100", "seconds 160", 1), 0, []string{"process_start_time_seconds"}, nil},
		{"engine gone", strings.Replace(before, "req_total{engine=\"1\"} 5\n", "", 1), 0, nil, []string{"req_total"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := promtext.Sub(read(t, before), read(t, tt.after))
			got, ok := d.Sum("req_total")
			require.True(t, ok)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.resets, d.Resets)
			require.Equal(t, len(tt.resets) > 0, d.Reset())
			require.Equal(t, tt.gone, d.Gone)
			_, ok = d.Sum("running")
			require.False(t, ok, "a gauge has no difference")
		})
	}
}

func TestSumOfLabels(t *testing.T) {
	s := read(t, before)
	for _, c := range []struct {
		want  []promtext.Label
		sum   float64
		found bool
	}{
		{nil, 15, true},
		{[]promtext.Label{{"engine", "1"}}, 5, true},
		{[]promtext.Label{{"engine", "2"}}, 0, false},
	} {
		sum, found := s.Sum("req_total", c.want...)
		require.Equal(t, c.sum, sum, "%v", c.want)
		require.Equal(t, c.found, found, "%v", c.want)
	}
}

func TestTotals(t *testing.T) {
	d := promtext.Sub(read(t, ""), read(t, before))
	got := d.Totals(func(name string) bool { return strings.HasPrefix(name, "req") || name == "ttft_sum" })
	require.Equal(t, map[string]float64{"req_total": 15, "ttft_sum": 1.5}, got)
}

func FuzzRead(f *testing.F) {
	page, err := os.ReadFile("testdata/metrics.prom")
	require.NoError(f, err)
	f.Add(page[:2000])
	f.Add([]byte(before))
	f.Add([]byte(`a{p="C:\\d\"q\"\n"} NaN 5`))
	f.Fuzz(func(t *testing.T, page []byte) {
		s, _ := promtext.Read(bytes.NewReader(page))
		require.NotNil(t, s)
		require.Empty(t, promtext.Sub(s, s).Gone)
		for _, x := range s.Samples() {
			require.NotEmpty(t, x.Name)
			require.NotContains(t, x.Name, " ")
		}
	})
}

func BenchmarkRead(b *testing.B) {
	page, err := os.ReadFile("testdata/metrics.prom")
	require.NoError(b, err)
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if _, err := promtext.Read(bytes.NewReader(page)); err != nil {
			b.Fatal(err)
		}
	}
}
