package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/eval"
)

// The number of an answer is the one that vLLM's script reads (its get_answer_value, run with Python
// 3.11 on each of these texts).
func TestNumber(t *testing.T) {
	for text, want := range map[string]string{
		"#### 18": "18", "1,234 eggs": "1234", "-5": "5", "3.75": "75", "18 dollars and 7": "7", "0": "0", "00": "0",
		"007": "", "a 07": "", "": "", "none": "", "٣": "", "12٣": "", "٣ then 4": "4", "$1,000,000.": "1000000",
		"5 and then, 6": "6", strings.Repeat("9", 4300): strings.Repeat("9", 4300), strings.Repeat("9", 4301): "",
	} {
		got, ok := eval.Number(text)
		require.Equal(t, want, got, text)
		require.Equal(t, want != "", ok, text)
	}
}

const (
	train = `{"question": "A?", "answer": "x\n#### 1"}` + "\n" + `{"question": "B?", "answer": "#### 2"}` + "\n"
	test  = "# a comment\n" + `{"question": "What is 2 plus 3?", "answer": "#### 5"}` + "\n\n" +
		`{"question": "What is 4 plus 3?", "answer": "#### 7"}` + "\n" + `{"question": "Third?", "answer": "#### 1,000"}` + "\n"
)

func set(t *testing.T, s eval.Settings) *eval.Set {
	t.Helper()
	got, err := eval.Read([]byte(train), []byte(test), s)
	require.NoError(t, err)
	return got
}

func TestPrompts(t *testing.T) {
	got := set(t, eval.Settings{Shots: 2, Questions: 1319})
	require.Equal(t, 3, got.Questions)
	require.Equal(t, "Question: A?\nAnswer: x\n#### 1\n\nQuestion: B?\nAnswer: #### 2\n\nQuestion: What is 4 plus 3?\nAnswer:",
		got.Items[1].Prompt)
	require.Equal(t, "1000", got.Items[2].Label)
	require.Equal(t, "Question: A?\nAnswer: P x\n#### 1\n\nQuestion: What is 2 plus 3?\nAnswer: P",
		set(t, eval.Settings{Shots: 1, Questions: 1, Prefix: " P"}).Items[0].Prompt)
	for text, want := range map[string]string{
		`{"question": "A?"}`:                   "line 1: question or answer is missing",
		"{":                                    "line 1:",
		`{"question": "A?", "answer": "none"}`: "question 1 has no number in its answer",
		"":                                     "no questions",
	} {
		_, err := eval.Read([]byte(train), []byte(text), eval.Settings{Questions: 9})
		require.ErrorContains(t, err, want, text)
	}
	_, err := eval.Read([]byte(train), []byte(test), eval.Settings{Shots: 3, Questions: 9})
	require.ErrorContains(t, err, "2 questions, but --num-shots is 3")
}

// server answers each question with a text, and fails where there is none.
func server(t *testing.T, texts map[string]string, asked *atomic.Int32) eval.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var q struct{ Prompt string }
		_ = json.NewDecoder(r.Body).Decode(&q)
		last := q.Prompt[strings.LastIndex(q.Prompt, "Question: ")+len("Question: "):]
		text, ok := texts[strings.TrimSuffix(last, "\nAnswer:")]
		if !ok {
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"choices": [{"text": %q}], "usage": {"completion_tokens": 3}}`, text)
	}))
	t.Cleanup(srv.Close)
	return eval.Server{URL: srv.URL, Concurrency: 2, Timeout: time.Minute, Client: srv.Client()}
}

func open(t *testing.T, file string, s *eval.Set, part eval.Shard) *eval.Book {
	t.Helper()
	b, err := eval.OpenBook(file, s, part, time.Now)
	require.NoError(t, err)
	return b
}

// A request that fails is no wrong answer, and is asked again; what was answered is not asked again,
// also after a crash in the middle of a line.
func TestContinued(t *testing.T) {
	s := set(t, eval.Settings{Endpoint: eval.Completions, Questions: 9, MaxTokens: 5})
	file := filepath.Join(t.TempDir(), "a.answers.jsonl")
	var asked atomic.Int32
	texts := map[string]string{"What is 2 plus 3?": " it is 5", "What is 4 plus 3?": "I do not know"}
	b := open(t, file, s, eval.Shard{})
	require.NoError(t, eval.Ask(context.Background(), server(t, texts, &asked), s, eval.Shard{}, b))
	require.NoError(t, b.Close())
	r, err := b.Score("v", time.Unix(7, 0))
	require.NoError(t, err)
	require.Equal(t, int32(3), asked.Load())
	require.InDelta(t, 1.0/3, r.Accuracy, 1e-9, "as the script counts")
	require.InDelta(t, 2.0/3, r.InvalidRate, 1e-9)
	require.Equal(t, 6, r.OutputTokens)
	require.Equal(t, [4]int{2, 1, 1, 1}, [4]int{r.Own.Answered, r.Own.Failed, r.Own.Right, r.Own.Invalid})
	require.InDelta(t, 0.5, r.Own.Accuracy, 1e-9)

	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"question": 2, "id`)
	require.NoError(t, errors.Join(err, f.Close()))
	texts["Third?"] = "1,000"
	b = open(t, file, s, eval.Shard{})
	require.Equal(t, []int{2}, b.Open(s, eval.Shard{}))
	require.NoError(t, eval.Ask(context.Background(), server(t, texts, &asked), s, eval.Shard{}, b))
	require.NoError(t, b.Close())
	require.Equal(t, int32(4), asked.Load())
	b, err = eval.ReadBook(file)
	require.NoError(t, err)
	r, err = b.Score("v", time.Unix(7, 0))
	require.NoError(t, err)
	require.InDelta(t, 2.0/3, r.Accuracy, 1e-9)
	require.Zero(t, r.Own.Failed)
	require.Equal(t, 2, r.Own.Sessions)

	other := s.Settings
	other.MaxTokens = 6
	_, err = eval.OpenBook(file, set(t, other), eval.Shard{}, time.Now)
	require.ErrorIs(t, err, eval.ErrOther)
	other = s.Settings
	other.Served = "another"
	_, err = eval.OpenBook(file, set(t, other), eval.Shard{}, time.Now)
	require.ErrorIs(t, err, eval.ErrOther)
	require.ErrorContains(t, err, `its model is "", not "another"`)
}

// Parts asked by several commands make the same result as one command.
func TestParts(t *testing.T) {
	s := set(t, eval.Settings{Endpoint: eval.Completions, Questions: 9, MaxTokens: 5})
	texts := map[string]string{"What is 2 plus 3?": "5", "What is 4 plus 3?": "8", "Third?": "1000"}
	var asked atomic.Int32
	srv, dir := server(t, texts, &asked), t.TempDir()
	var books []*eval.Book
	for i := range 2 {
		part := eval.Shard{Part: i + 1, Of: 2}
		b := open(t, filepath.Join(dir, fmt.Sprint(i)), s, part)
		require.NoError(t, eval.Ask(context.Background(), srv, s, part, b))
		require.NoError(t, b.Close())
		books = append(books, b)
	}
	require.Equal(t, int32(3), asked.Load())
	all, err := eval.Merge(books)
	require.NoError(t, err)
	r, err := all.Score("v", time.Unix(7, 0))
	require.NoError(t, err)
	require.InDelta(t, 2.0/3, r.Accuracy, 1e-9)
	data, err := all.Encode()
	require.NoError(t, err)
	again, err := eval.ParseBook(bytes.NewReader(data))
	require.NoError(t, err)
	require.Len(t, again.Answers, 3)
	_, err = eval.Merge([]*eval.Book{books[0], books[0]})
	require.ErrorContains(t, err, "is in several parts")
}

// Parts that asked one after the other took the time of both, and those at the same time that of the
// longest; also once the merged answers are read again.
func TestMergedTime(t *testing.T) {
	s := set(t, eval.Settings{Endpoint: eval.Completions, Questions: 9, MaxTokens: 5})
	merged := func(begins ...int64) eval.Result {
		t.Helper()
		var books []*eval.Book
		for i, begin := range begins {
			clock := time.Unix(begin, 0)
			b, err := eval.OpenBook(filepath.Join(t.TempDir(), "a"), s, eval.Shard{Part: i + 1, Of: len(begins)},
				func() time.Time { return clock })
			require.NoError(t, err)
			clock = clock.Add(10 * time.Second)
			require.NoError(t, b.Add(eval.Answer{Question: i, Tokens: 3}))
			require.NoError(t, b.Close())
			books = append(books, b)
		}
		all, err := eval.Merge(books)
		require.NoError(t, err)
		data, err := all.Encode()
		require.NoError(t, err)
		again, err := eval.ParseBook(bytes.NewReader(data))
		require.NoError(t, err)
		r, err := all.Score("v", time.Unix(7, 0))
		require.NoError(t, err)
		second, err := again.Score("v", time.Unix(7, 0))
		require.NoError(t, err)
		require.InDelta(t, r.Latency, second.Latency, 1e-6)
		require.Equal(t, len(begins), second.Own.Sessions)
		return r
	}
	require.InDelta(t, 20, merged(100, 500).Latency, 1e-6, "one after the other")
	require.InDelta(t, 10, merged(100, 100).Latency, 1e-6, "at the same time")
	require.InDelta(t, 14, merged(104, 100).Latency, 1e-6, "the second began 4 s earlier")
	require.InDelta(t, 24, merged(100, 500, 104).Latency, 1e-6)
	require.InDelta(t, 2.0/20, merged(100, 500).PerSecond, 1e-6)
}

// A file that only lacks a newline is not emptied; a head that a crash has cut short is written again.
func TestOtherFile(t *testing.T) {
	s := set(t, eval.Settings{Endpoint: eval.Completions, Questions: 9, MaxTokens: 5})
	file := filepath.Join(t.TempDir(), "a.answers.jsonl")
	for _, text := range []string{"my notes", `{"schema":"profllm.result/1"`} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		_, err := eval.OpenBook(file, s, eval.Shard{}, time.Now)
		require.ErrorIs(t, err, eval.ErrOther)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}
	for _, text := range []string{"", `{"sch`, `{"schema":"profllm.answers/1","questions_di`} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		require.NoError(t, open(t, file, s, eval.Shard{}).Close())
		_, err := eval.ReadBook(file)
		require.NoError(t, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(test))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := eval.Read(data, data, eval.Settings{Shots: 1, Questions: 5})
		require.Equal(t, err == nil, s != nil)
	})
}

func FuzzParseBook(f *testing.F) {
	f.Add([]byte(`{"schema":"profllm.answers/1"}` + "\n" + `{"question":1,"number":"2","right":true,"at_s":1}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := eval.ParseBook(bytes.NewReader(data))
		if err == nil {
			_, _ = b.Score("", time.Time{})
		}
	})
}
