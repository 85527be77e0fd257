package vllm

import (
	"strings"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// rayOptions writes a table as options of `ray start`: --opt=value, a bare flag
// for true, nothing for false.
func rayOptions(t *source.Table) []string {
	var options []string
	for _, key := range t.Keys() {
		name := "--" + strings.ReplaceAll(key, "_", "-")
		switch x := t.Get(key).Any.(type) {
		case bool:
			if x {
				options = append(options, name)
			}
		default:
			options = append(options, name+"="+serving.Scalar(t.Get(key)))
		}
	}
	return options
}
