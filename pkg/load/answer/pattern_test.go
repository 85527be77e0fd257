package answer

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer/answertest"
)

func payloadOf(event string) string { return strings.TrimPrefix(strings.TrimSpace(event), "data: ") }

// What is read by a pattern is what is read without one.
func FuzzPattern(f *testing.F) {
	token := payloadOf(answertest.TokenEvent)
	for _, second := range []string{
		token, strings.Replace(token, `"a"`, `" word ü"`, 1), strings.Replace(token, `"a"`, `""`, 1),
		strings.Replace(token, `"a"`, `"\n"`, 1), strings.Replace(token, `"a"`, `"a","text":"b"`, 1),
		strings.Replace(token, `"a"`, `"`, 1), strings.Replace(token, `"a"`, `null`, 1), token[:len(token)-1],
		payloadOf(deltaEvent), payloadOf(answertest.LastEvent), payloadOf(answertest.UsageEvent), "",
	} {
		f.Add(token, second)
		f.Add(payloadOf(deltaEvent), second)
	}
	f.Add(`{"choices":[{"text":"a"},{"text":""}]}`, `{"choices":[{"text":"b"},{"text":""}]}`)
	f.Add(`{"choices":[{"text":""},{"text":"a"}]}`, `{"choices":[{"text":""},{"text":"b"}]}`)
	f.Add(`{"choices":[{"text":"a"}],"error":"x"}`, `{"choices":[{"text":"b"}],"error":"x"}`)
	f.Add(`{"choices":[{"text":"a"}]}`, `{"choices":[{"text":"}]}`)
	f.Add(`{"choices":[{"text":"a`, `{"choices":[{"text":"b`)
	f.Fuzz(func(t *testing.T, first, second string) {
		var k pattern
		for _, payload := range []string{first, second, first, second} {
			want, wantErr := readChunk([]byte(payload))
			buffer := []byte(payload)
			got, err := k.read(buffer)
			got.at, want.at = 0, 0 // of use to the pattern only
			require.Equal(t, wantErr, err)
			require.Equal(t, want, got)
			clear(buffer) // nothing may be kept of it
		}
	})
}

func TestPatternMatchesNextToken(t *testing.T) {
	token := payloadOf(answertest.TokenEvent)
	var k pattern
	_, err := k.read([]byte(token))
	require.NoError(t, err)
	require.Equal(t, `" next"`, string(k.match([]byte(strings.Replace(token, `"a"`, `" next"`, 1)))))
	require.Nil(t, k.match([]byte(strings.Replace(token, "cmpl-1", "cmpl-2", 1))))
	_, err = k.read([]byte(strings.Replace(token, `"a"`, `"`+strings.Repeat("x", patternLimit)+`"`, 1)))
	require.NoError(t, err)
	require.NotEmpty(t, k.payload, "a long text changes nothing in the pattern")
	_, err = k.read([]byte(payloadOf(answertest.UsageEvent)))
	require.NoError(t, err)
	require.Empty(t, k.payload)
}

// BenchmarkPattern compares the reading of an event by a pattern with reading its JSON.
func BenchmarkPattern(b *testing.B) {
	payload := []byte(payloadOf(answertest.TokenEvent))
	var k pattern
	var by, without time.Duration
	for b.Loop() {
		began := time.Now()
		for range 1000 {
			if c, err := k.read(payload); err != nil || c.texts != 1 {
				b.Fatal(err)
			}
		}
		between := time.Now()
		for range 1000 {
			if c, err := readChunk(payload); err != nil || c.texts != 1 {
				b.Fatal(err)
			}
		}
		by, without = by+between.Sub(began), without+time.Since(between)
	}
	b.ReportMetric(float64(by.Nanoseconds())/float64(b.N)/1000, "ns/event")
	b.ReportMetric(float64(without)/float64(by), "x-faster")
}
