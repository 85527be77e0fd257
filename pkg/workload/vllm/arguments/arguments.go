// Package arguments lists the options of `vllm serve`, as its own parser knows them.
package arguments

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// Serve has a line for each option of `vllm serve` 0.32.0; lines with # say what its columns are.
//
//go:embed vllm-serve-0.32.0.txt
var Serve string

// Names are the long names of those options without their dashes, underscores for dashes
// within, also of --no-x.
var Names = sync.OnceValue(func() []string {
	var list []string
	for line := range strings.Lines(Serve) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		names, _, _ := strings.Cut(line, " ")
		for name := range strings.SplitSeq(names, ",") {
			if long, ok := strings.CutPrefix(name, "--"); ok {
				list = append(list, strings.ReplaceAll(long, "-", "_"))
			}
		}
	}
	slices.Sort(list)
	return list
})
