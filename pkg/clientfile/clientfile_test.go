package clientfile_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/clientfile"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// A key that is there twice, and text that is no JSON, are noted with their places.
func TestReadNotesPlaces(t *testing.T) {
	for text, want := range map[string]result.Warning{
		"{\"a\": 1,\n \"a\": 2}": {Kind: result.Contradicts, Line: 2, Col: 2, Key: "a", Text: pyjson.TwiceMessage},
		"{\"a\": [1,":            {Kind: result.Truncated, Line: 1, Col: 10, Text: "the file ends inside a document"},
		"{\"a\": no}":            {Kind: result.BadValue, Line: 1, Col: 7, Text: `not a value: "no"`},
	} {
		f := &clientfile.File{Name: "x.json"}
		err := f.Read(fstest.MapFS{"x.json": {Data: []byte(text)}}, (*pyjson.Reader).Skip)
		require.Equal(t, want.Kind != result.Contradicts, err != nil)
		want.File = "x.json"
		require.Equal(t, []result.Warning{want}, f.Warnings)
	}
}
