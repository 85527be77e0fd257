package pyjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"fmt"

	"github.com/profllm/profllm/pkg/pyjson"
)

func whole(text string) (pyjson.Value, error) { return read(pyjson.NewReader(strings.NewReader(text))) }

func read(r *pyjson.Reader) (pyjson.Value, error) {
	v, err := r.Value()
	if err == nil {
		err = r.End()
	}
	return v, err
}

func TestValue(t *testing.T) {
	v, err := whole("{\"a\": [1, -2.5e3, NaN, Infinity, -Infinity, 1e999],\n \"b\": {\"c\": \"x\\u00e9\\\"\", \"c\": null}, \"d\": true}\n")
	require.NoError(t, err)
	var got []float64
	for _, x := range v.At("a").Items {
		got = append(got, x.Num)
	}
	require.True(t, math.IsNaN(got[2]))
	got[2] = 0
	require.Equal(t, []float64{1, -2500, 0, math.Inf(1), math.Inf(-1), math.Inf(1)}, got)
	require.Equal(t, pyjson.Null, v.At("b", "c").Kind, "the last of two, as in Python")
	require.Equal(t, "xé\"", v.At("b").Fields[0].Value.Str)
	require.Equal(t, []int{2, 13}, []int{v.At("b", "c").Line, v.Fields[1].Value.Fields[0].Value.Col})
	require.Equal(t, "true", v.At("d").Str)
	require.Equal(t, pyjson.Absent, v.At("a", "b", "c").Kind)
	_, ok := v.At("a").Items[2].Finite()
	require.False(t, ok)
}

// Bytes that are no text are replaced, also in a string that is longer than what is read at a time.
func TestBytesThatAreNoText(t *testing.T) {
	for _, long := range []string{"", strings.Repeat("y", 1<<20)} {
		v, err := whole("\"a\xff" + long + "b\"")
		require.NoError(t, err)
		require.Equal(t, "a\uFFFD"+long+"b", v.Str)
	}
}

// A word that is no value spoils only itself where the reader is loose.
func TestLoose(t *testing.T) {
	r := pyjson.NewPart([]byte(`{"a": 0x10, "b": [fast, 1], "c": 2}`), 7, 3)
	r.Loose = true
	var got []string
	require.NoError(t, r.Object(func(key string) error {
		r.Kind()
		line, col := r.Place()
		raw, err := r.Raw()
		got = append(got, fmt.Sprintf("%d:%d %s", line, col, raw))
		return err
	}))
	require.Equal(t, []string{"7:9 0x10", "7:20 [fast, 1]", "7:36 2"}, got)
	require.NoError(t, r.End())
	require.Empty(t, r.Rest())
}

func TestBadText(t *testing.T) {
	for _, c := range []struct {
		text, err string
		cut       bool
	}{
		{"", "1:1: the file ends inside a document", true},
		{"{", "1:2: the file ends inside a document", true},
		{`{"a"`, "1:5: the file ends inside a document", true},
		{`{"a": [1, 2`, "1:12: the file ends inside a document", true},
		{"{\n\"a\": \"x", "2:8: the file ends inside a document", true},
		{`{"a": "x\`, "1:10: the file ends inside a document", true},
		{`{"a": 1,}`, `1:9: expected a string`, false},
		{`[1,]`, `1:4: expected a value, got ']'`, false},
		{`{"a" 1}`, `1:6: expected a colon after key "a"`, false},
		{`[1 2]`, `1:4: expected a comma or ']'`, false},
		{`[nul]`, `1:2: not a value: "nul"`, false},
		{`[01]`, `1:2: not a value: "01"`, false},
		{`[Nan]`, `1:2: not a value: "Nan"`, false},
		{`["\x"]`, `1:2: bad string: invalid character 'x' in string escape code`, false},
		{"[1]\n x", `2:2: text after the end of the document: 'x'`, false},
		{strings.Repeat("[", 600), "1:201: nested more than 200 deep", false},
		{strings.Repeat("1", 2000), "not a value: ", false},
		{"[" + strings.Repeat("1,", 1<<18) + "1]", "more than 262144 values in one", false},
		{`["` + strings.Repeat("x", 17<<20) + `"]`, "more than 16 MiB", false},
	} {
		_, err := whole(c.text)
		require.ErrorContains(t, err, c.err)
		var at *pyjson.Error
		require.ErrorAs(t, err, &at)
		require.Equal(t, c.cut, at.Cut, c.err)
	}
}

// A damaged file ends where the damage is.
func TestDamage(t *testing.T) {
	r := pyjson.NewReader(io.MultiReader(strings.NewReader("[1,\n2"), iotest.ErrReader(errors.New("bad disk"))))
	err := r.Skip()
	require.EqualError(t, err, "2:2: bad disk")
	require.True(t, err.(*pyjson.Error).Cut)
}

var request = []byte(`{"prompt": "` + strings.Repeat("some text ", 400) + `", "times": [0.1, 0.2, NaN], "n": 1},`)

// endless is a list of requests that is never held as a whole.
type endless struct {
	left int
	part []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.part) == 0 {
		if e.left == 0 {
			return 0, io.EOF
		}
		e.left--
		e.part = request
	}
	n := copy(p, e.part)
	e.part = e.part[n:]
	return n, nil
}

func TestMemoryOfALongList(t *testing.T) {
	const requests = 25_000 // 100 MB
	r := pyjson.NewReader(io.MultiReader(strings.NewReader(`{"requests": [`), &endless{left: requests},
		strings.NewReader(`{"n": 1}], "last": 7}`)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, last := 0, 0.0
	require.NoError(t, r.Object(func(key string) error {
		if key != "requests" {
			v, err := r.Value()
			last = v.Num
			return err
		}
		return r.List(func() error {
			return r.Object(func(key string) error {
				if key != "n" {
					return r.Skip()
				}
				v, err := r.Value()
				n += int(v.Num)
				return err
			})
		})
	}))
	runtime.ReadMemStats(&after)
	require.Equal(t, requests+1, n)
	require.InDelta(t, 7, last, 0)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(requests*len(request)/4), "the texts are not kept")
}

// What is JSON is read as encoding/json does, and skipping comes as far as reading.
func FuzzValue(f *testing.F) {
	f.Add([]byte(`{"a": [1, NaN, -Infinity, {"b": "\\\"x\u0041"}], "c": null}`))
	f.Add([]byte("[[[]], {}, true,\n 1e5]"))
	f.Add([]byte(`{"a": [1, `))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := whole(string(data))
		r := pyjson.NewReader(iotest.OneByteReader(bytes.NewReader(data)))
		skipped := r.Skip()
		if skipped == nil {
			skipped = r.End()
		}
		if err == nil {
			require.NoError(t, skipped)
		}
		bitwise, bitwiseErr := read(pyjson.NewReader(iotest.OneByteReader(bytes.NewReader(data))))
		inMemory, inMemoryErr := read(pyjson.NewBytes(data))
		require.Equal(t, err, bitwiseErr)
		require.Equal(t, err, inMemoryErr)
		require.Equal(t, fmt.Sprint(v), fmt.Sprint(bitwise), "wherever the buffer ends")
		require.Equal(t, fmt.Sprint(v), fmt.Sprint(inMemory))
		var at *pyjson.Error
		if errors.As(err, &at) {
			require.Positive(t, at.Line)
			require.Positive(t, at.Col)
			require.LessOrEqual(t, at.Line, 1+bytes.Count(data, []byte("\n")))
		}
		var want any
		if utf8.Valid(data) && len(data) < 1000 && json.Unmarshal(data, &want) == nil {
			require.NoError(t, err)
			require.Equal(t, want, plain(v))
		}
	})
}

func plain(v pyjson.Value) any {
	switch v.Kind {
	case pyjson.Bool:
		return v.Str == "true"
	case pyjson.Number:
		return v.Num
	case pyjson.Text:
		return v.Str
	case pyjson.List:
		list := []any{}
		for _, x := range v.Items {
			list = append(list, plain(x))
		}
		return list
	case pyjson.Object:
		m := map[string]any{}
		for _, f := range v.Fields {
			m[f.Key] = plain(f.Value)
		}
		return m
	}
	return nil
}

// Keys of objects that are not too deep, and nothing of what merely looks like one.
func TestTwice(t *testing.T) {
	for text, want := range map[string][]string{
		`{"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}], "d": "\"a\": 1"}`: nil,
		`{"a": 1, "b": {"c": 1, "c": 1}, "a": 2}`:                             {"1:24 c", "1:33 a"},
		`{"a": [{"b": 1, "b": 2}]}`:                                           {"1:17 b"},
		`{"a": 1, "a": 1, "a": 1, "a": 1, "a": 1, "a": 1, "a": 1}`: {"1:10 a", "1:18 a", "1:26 a", "1:34 a",
			"1:42 a"},
	} {
		var got []string
		for _, key := range pyjson.Twice([]byte(text)) {
			got = append(got, fmt.Sprintf("%d:%d %s", key.Line, key.Col, key.Str))
		}
		require.Equal(t, want, got, text)
	}
}

// A byte order mark in front of a document is no part of it, however the text arrives.
func TestByteOrderMark(t *testing.T) {
	for _, text := range []string{"\ufeff{\"a\": 1}", "{\"a\": 1}", "\ufeff[]", "1", "\ufeff"} {
		bare := strings.TrimPrefix(text, pyjson.Mark)
		for name, r := range map[string]*pyjson.Reader{"bytes": pyjson.NewBytes([]byte(text)), "reader": pyjson.NewReader(strings.NewReader(text)),
			"a byte at a time": pyjson.NewReader(iotest.OneByteReader(strings.NewReader(text)))} {
			err := r.Skip()
			if bare == "" {
				require.Error(t, err, name)
				continue
			}
			require.NoError(t, err, "%s %q", name, text)
			require.NoError(t, r.End(), "%s %q", name, text)
		}
		got, err := io.ReadAll(pyjson.SkipMark(iotest.DataErrReader(strings.NewReader(text))))
		require.NoError(t, err)
		require.Equal(t, bare, string(got))
	}
}
