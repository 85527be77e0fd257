package interchange

import (
	"fmt"
	"path"

	"github.com/profllm/profllm/pkg/bench/vllmoffline"
)

// readOffline reads the last table of a console text of pysheeet's benchmark without a server.
func readOffline(file string, data []byte) (Format, []Item, error) {
	p, err := vllmoffline.ReadText(path.Base(file), data)
	if err != nil {
		return Offline, nil, fmt.Errorf("%s: %w", file, err)
	}
	s := &source{file: file, data: data}
	it := s.add(0, "")
	it.finish(&node{kind: table}, p)
	it.Record.Provenance.Imported.From, it.Record.Provenance.Imported.Format = from[Offline], string(Offline)
	return Offline, s.items, nil
}
