package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var tokenizers = map[string]tokenizer{"words": {}, "bytes": {bytes: true}}

func TestTokenizer(t *testing.T) {
	require.Equal(t, []int{39, 68, 75, 75, 78}, tokenizer{bytes: true}.encode("Hello"), "as the recorded /tokenize")
	require.Len(t, tokenizer{}.encode("the quick brown fox jumps over the lazy dog"), 14)
	for _, id := range []int{firstWord, firstWord + 25, firstWord + 26, firstWord + wordPieces - 1,
		firstWord + wordPieces, vocabulary - 1} {
		text := tokenizer{}.decode(id)
		require.Equal(t, []int{id}, tokenizer{}.encode(text), "%q", text)
	}
	require.Equal(t, "a", tokenizer{}.decode(firstWord))
	require.Equal(t, "aa", tokenizer{}.decode(firstWord+26))
	require.Equal(t, " zzz", tokenizer{}.decode(vocabulary-1))
	require.Equal(t, "\ufffd", tokenizer{}.decode(vocabulary))
	require.Equal(t, "\ufffd", tokenizer{}.decode(-1))
}

func FuzzTokenizer(f *testing.F) {
	for _, s := range []string{"", "Hello", " a bcd efgh", "<|user|>x<|assistant|>", "\x00\xff", "naïve 東京", "< |"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, k := range tokenizers {
			ids := k.encode(text)
			for _, id := range ids {
				require.True(t, id >= 0 && id < vocabulary, "%s: id %d", name, id)
			}
			// An end of text is not shown, as real servers skip special tokens.
			require.Equal(t, strings.ReplaceAll(text, "<|endoftext|>", ""), k.text(ids), name)
		}
	})
}

func TestSpeak(t *testing.T) {
	k := tokenizer{}
	tests := map[string]struct {
		start  string
		limits limits
		text   string
		tokens int
		finish string
		reason any
	}{
		"length":                {" yes", limits{max: 1}, " yes", 1, "length", nil},
		"end of text counts":    {" yes", limits{max: 9}, " yes", 2, "stop", nil},
		"stop string":           {" yes no way", limits{max: 9, stop: []string{"xx", "no"}}, " yes ", 2, "stop", "no"},
		"earliest stop wins":    {" yes no way", limits{max: 9, stop: []string{"way", "o", "no"}}, " yes ", 2, "stop", "no"},
		"stop across tokens":    {" yes no", limits{max: 9, stop: []string{"s n"}}, " ye", 2, "stop", "s n"},
		"stop token":            {" yes no", limits{max: 9, stopIDs: k.encode(" no")}, " yes", 2, "stop", k.encode(" no")[0]},
		"stop behind the limit": {" yes no", limits{max: 1, stop: []string{"no"}}, " yes", 1, "length", nil},
		"min tokens":            {" yes", limits{max: 9, min: 9, allowed: []int{endOfText}}, " yes", 9, "length", nil},
		"allowed end of text":   {"", limits{max: 9, allowed: []int{endOfText}}, "", 1, "stop", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := k.speak(1, tt.start, tt.limits)
			text, ids := said(a.tokens)
			require.Equal(t, tt.text, text)
			require.Len(t, ids, tt.tokens)
			require.Equal(t, tt.finish, a.finish)
			require.Equal(t, tt.reason, a.reason)
		})
	}
}

func TestSpeakIsSeeded(t *testing.T) {
	k := tokenizer{}
	long := limits{max: 2000, ignoreEOS: true}
	require.Equal(t, k.speak(1, "", long), k.speak(1, "", long))
	require.NotEqual(t, k.speak(1, "", long), k.speak(2, "", long))
	require.Len(t, k.speak(1, "", long).tokens, 2000)
	ends := 0
	for seed := range uint64(200) {
		a := k.speak(seed, "", limits{max: 256})
		if a.finish == "stop" {
			ends++
			require.Greater(t, len(a.tokens), shortest)
		}
	}
	require.InDelta(t, 200*(256.0-shortest)/spread, ends, 30, "some answers end by themselves")
}
