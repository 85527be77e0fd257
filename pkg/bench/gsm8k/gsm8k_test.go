package gsm8k_test

import (
	"bytes"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/profllm/profllm/pkg/bench/gsm8k"
	"github.com/profllm/profllm/pkg/result"
)

func TestFile(t *testing.T) {
	part, err := gsm8k.Parser{}.Parse(os.DirFS("testdata"))
	require.NoError(t, err)
	require.Empty(t, part.Warnings)
	require.Equal(t, &result.Accuracy{
		Task: "gsm8k", Value: 0.745, InvalidRate: new(0.005), Questions: new(200), Shots: new(5),
		Duration: new(38.412907), Tokens: new(int64(24310)), Source: "vllm-gsm8k.json",
		Time: new(time.UnixMilli(1795107321482).UTC()),
	}, part.Accuracy)
}

func TestCompressed(t *testing.T) {
	plain, err := os.ReadFile("testdata/vllm-gsm8k.json")
	require.NoError(t, err)
	var b bytes.Buffer
	w, err := xz.NewWriter(&b)
	require.NoError(t, err)
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	part, err := gsm8k.Parser{}.Parse(fstest.MapFS{"vllm-gsm8k.json.xz": {Data: b.Bytes()}})
	require.NoError(t, err)
	require.Equal(t, 0.745, part.Accuracy.Value)
	require.Equal(t, "vllm-gsm8k.json.xz", part.Accuracy.Source)
}

const console = "Evaluating\r 50%\r100%\nResults:\nAccuracy: 0.745\nInvalid responses: 0.005\nTotal latency: 38.413 s\n"

func TestFallback(t *testing.T) {
	tests := []struct {
		name, file, log string
		want            float64
		warnings        []result.WarningKind
	}{
		{"no file", "", console, 0.745, []result.WarningKind{result.Recovered}},
		{"truncated file", `{"accuracy": 0.7`, console, 0.745, []result.WarningKind{result.Truncated, result.Recovered}},
		{"no key", `{"invalid_rate": 0.1}`, console, 0.745, []result.WarningKind{result.BadValue, result.Recovered}},
		{"accuracy is text", `{"accuracy": "high"}`, console, 0.745, []result.WarningKind{result.NoNumber, result.BadValue, result.Recovered}},
		{"accuracy is NaN", `{"accuracy": NaN}`, console, 0.745, []result.WarningKind{result.NotFinite, result.BadValue, result.Recovered}},
		{"not an object", `[1]`, console, 0.745, []result.WarningKind{result.BadValue, result.Recovered}},
		{"first line wins", "", "Accuracy: 0.5\nAccuracy: 0.9\n", 0.5, []result.WarningKind{result.Recovered}},
		{"no blank", "", "x Accuracy:.25\n", 0.25, []result.WarningKind{result.Recovered}},
		{"SGLang's word", "", "Scores: ['0.1']\nTotal latency: 1.000 s\nScore: 0.755\n", 0.755, []result.WarningKind{result.Recovered}},
		{"the first of either word", "", "Score: 0.5\nAccuracy: 0.9\n", 0.5, []result.WarningKind{result.Recovered}},
		{"part of a word", "", "mean_Score: 0.1\nHighScore: 0.2\nScore: 1.0\n", 1, []result.WarningKind{result.Recovered}},
		{"zero is a value", `{"accuracy": 0.0}`, "", 0, nil},
		{"another key is bad", `{"accuracy": 0.6, "num_questions": "all"}`, "", 0.6, []result.WarningKind{result.NoNumber}},
		{"infinite time", `{"accuracy": 0.6, "latency": Infinity, "x": "a: NaN, b"}`, "", 0.6, []result.WarningKind{result.NotFinite}},
		{"infinite speed of a time that is not kept", `{"accuracy": 0.6, "tokens_per_second": Infinity}`, "", 0.6, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := fstest.MapFS{}
			if tt.file != "" {
				out["vllm-gsm8k.json"] = &fstest.MapFile{Data: []byte(tt.file)}
			}
			if tt.log != "" {
				out["vllm-semantic-eval.log"] = &fstest.MapFile{Data: []byte(tt.log)}
			}
			part, err := gsm8k.Parser{}.Parse(out)
			require.NoError(t, err)
			require.Equal(t, tt.want, part.Accuracy.Value)
			var kinds []result.WarningKind
			for _, w := range part.Warnings {
				kinds = append(kinds, w.Kind)
			}
			require.Equal(t, tt.warnings, kinds)
			require.Equal(t, tt.log != "", part.Accuracy.FromLog)
		})
	}
}

// What the file says twice, and what the log says of it.
func TestContradictions(t *testing.T) {
	for _, tt := range []struct {
		name, file, log string
		want            int
	}{
		{"the log agrees", `{"accuracy": 0.7452}`, console, 0},
		{"the log rounds", `{"accuracy": 0.7445}`, console, 0},
		{"the log says another", `{"accuracy": 0.7963}`, console, 1},
		{"one line of the log agrees", `{"accuracy": 0.745}`, "Accuracy: 0.1\n" + console, 0},
		{"the log has percent", `{"accuracy": 0.745}`, "Accuracy: 74.5\n", 0},
		{"the log has none", `{"accuracy": 0.745}`, "Accuracy: none\n", 0},
		{"a key twice", `{"accuracy": 0.745, "x": {"accuracy": 1}, "accuracy": 0.91}`, "", 1},
		{"a key twice, the same", `{"accuracy": 0.745, "accuracy":  0.745}`, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := fstest.MapFS{"vllm-gsm8k.json": {Data: []byte(tt.file)}}
			if tt.log != "" {
				out["vllm-semantic-eval.log"] = &fstest.MapFile{Data: []byte(tt.log)}
			}
			part, err := gsm8k.Parser{}.Parse(out)
			require.NoError(t, err)
			require.Len(t, part.Warnings, tt.want)
			for _, w := range part.Warnings {
				require.Equal(t, result.Contradicts, w.Kind)
			}
		})
	}
}

func TestNothing(t *testing.T) {
	for name, out := range map[string]fstest.MapFS{
		"no file":        {},
		"useless log":    {"vllm-semantic-eval.log": {Data: []byte("Accuracy: none\n")}},
		"truncated file": {"vllm-gsm8k.json": {Data: []byte(`{"acc`)}},
	} {
		t.Run(name, func(t *testing.T) {
			part, err := gsm8k.Parser{}.Parse(out)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.Nil(t, part.Accuracy)
		})
	}
}

func TestInvalidRateFromLog(t *testing.T) {
	part, err := gsm8k.Parser{}.Parse(fstest.MapFS{"vllm-semantic-eval.log": {Data: []byte(console)}})
	require.NoError(t, err)
	require.Equal(t, new(0.005), part.Accuracy.InvalidRate)
	require.Nil(t, part.Accuracy.Questions)
}

func TestBadKeyIsAbsentNotZero(t *testing.T) {
	part, err := gsm8k.Parser{}.Parse(fstest.MapFS{"vllm-gsm8k.json": {Data: []byte(`{"accuracy": 0.6, "num_questions": "all", "invalid_rate": "?"}`)}})
	require.NoError(t, err)
	require.Nil(t, part.Accuracy.Questions)
	require.Nil(t, part.Accuracy.InvalidRate)
	require.Len(t, part.Warnings, 2)
}

func FuzzParse(f *testing.F) {
	file, err := os.ReadFile("testdata/vllm-gsm8k.json")
	require.NoError(f, err)
	f.Add(file, []byte(console))
	f.Add([]byte(`{"accuracy": NaN}`), []byte("Accuracy: 1e999"))
	f.Fuzz(func(t *testing.T, file, log []byte) {
		part, err := gsm8k.Parser{}.Parse(fstest.MapFS{
			"vllm-gsm8k.json": {Data: file}, "vllm-semantic-eval.log": {Data: log},
		})
		require.Equal(t, err == nil, part.Accuracy != nil)
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
	})
}
