package dynamo

import (
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Prepared is a test in profllm's own words: it asks for as many nodes as its roles have, if it names none.
func Prepared(t scenario.Test) (scenario.Test, error) {
	w, err := read(t, false)
	if err != nil {
		return t, err
	}
	if !t.Table.Has("num_nodes") && !t.Table.Has("nodes") && w.Nodes() > 0 {
		t.NumNodes = &source.Value{Pos: w.decode.pos("num_nodes"), Any: int64(w.Nodes() + t.ClientNodes)}
	}
	return t, nil
}
