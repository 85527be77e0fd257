package pyjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/pyjson"
)

// detailedResult returns the result of n requests with 200 gaps and a text of 800 bytes each, as
// vLLM's client writes it with --save-detailed.
func detailedResult(n int) []byte {
	list := func(item func(i int) string) string {
		var b bytes.Buffer
		for i := range n {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(item(i))
		}
		return "[" + b.String() + "]"
	}
	value := func(i int) string { return fmt.Sprintf("0.0%015d", 204871134567123+7919*i%1000003) }
	return fmt.Appendf(nil, `{"date": "20260101-000000", "completed": %d, "duration": 61.5, "input_lens": %s, "output_lens": %s, `+
		`"ttfts": %s, "itls": %s, "start_times": %s, "generated_texts": %s, "errors": %s, "mean_ttft_ms": 20.5}`,
		n, list(func(int) string { return "64" }), list(func(int) string { return "201" }), list(value),
		list(func(i int) string {
			gaps := bytes.Repeat([]byte(value(i)+", "), 200)
			return "[" + string(gaps[:len(gaps)-2]) + "]"
		}),
		list(value), list(func(int) string { return `"` + string(bytes.Repeat([]byte(`the \"word\"\n`), 61)) + `"` }),
		list(func(int) string { return `""` }))
}

// lists are what a library is given to decode the same file into.
type lists struct {
	Completed int         `json:"completed"`
	Duration  float64     `json:"duration"`
	InputLens []int       `json:"input_lens"`
	Outputs   []int       `json:"output_lens"`
	TTFTs     []float64   `json:"ttfts"`
	ITLs      [][]float64 `json:"itls"`
	Starts    []float64   `json:"start_times"`
	Errors    []string    `json:"errors"`
	MeanTTFT  float64     `json:"mean_ttft_ms"`
}

// walk reads the same with a Reader.
func walk(data []byte) (l lists, err error) {
	r := pyjson.NewBytes(data)
	float := func(to *float64) error {
		v, err := r.Value()
		*to = v.Num
		return err
	}
	floats := func(to *[]float64) error {
		return r.List(func() error {
			*to = append(*to, 0)
			return float(&(*to)[len(*to)-1])
		})
	}
	integers := func(to *[]int) error {
		return r.List(func() error {
			v, err := r.Value()
			*to = append(*to, int(v.Num))
			return err
		})
	}
	err = r.Object(func(key string) error {
		switch key {
		case "completed":
			v, err := r.Value()
			l.Completed = int(v.Num)
			return err
		case "duration":
			return float(&l.Duration)
		case "mean_ttft_ms":
			return float(&l.MeanTTFT)
		case "ttfts":
			return floats(&l.TTFTs)
		case "start_times":
			return floats(&l.Starts)
		case "input_lens":
			return integers(&l.InputLens)
		case "output_lens":
			return integers(&l.Outputs)
		case "itls":
			return r.List(func() error {
				l.ITLs = append(l.ITLs, nil)
				return floats(&l.ITLs[len(l.ITLs)-1])
			})
		case "errors":
			return r.List(func() error {
				v, err := r.Value()
				l.Errors = append(l.Errors, v.Str)
				return err
			})
		}
		return r.Skip()
	})
	return l, err
}

// BenchmarkReader compares a Reader with encoding/json and its experimental second version,
// which decode the same lists of a large result into a struct. Neither takes NaN or says where
// in the file a value is.
func BenchmarkReader(b *testing.B) {
	data := detailedResult(2000)
	decoded := func(unmarshal func(l *lists) error) func() (lists, error) {
		return func() (l lists, err error) {
			err = unmarshal(&l)
			return l, err
		}
	}
	ways := []struct {
		name string
		read func() (lists, error)
	}{
		{"pyjson", func() (lists, error) { return walk(data) }},
		{"encoding/json", decoded(func(l *lists) error { return json.Unmarshal(data, l) })},
		{"json-experiment", decoded(func(l *lists) error { return jsonv2.Unmarshal(data, l) })},
	}
	took := make([]time.Duration, len(ways))
	want, err := walk(data)
	require.NoError(b, err)
	require.Len(b, want.ITLs, 2000)
	for b.Loop() {
		for i, w := range ways {
			began := time.Now()
			got, err := w.read()
			took[i] += time.Since(began)
			require.NoError(b, err)
			require.Equal(b, want.ITLs[1999], got.ITLs[1999])
		}
	}
	b.ReportMetric(float64(len(data))*float64(b.N)/took[0].Seconds()/1e6, "MB/s")
	for i, w := range ways[1:] {
		b.ReportMetric(float64(took[i+1])/float64(took[0]), "x-"+w.name)
	}
}
