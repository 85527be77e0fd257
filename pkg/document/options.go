package document

import "github.com/profllm/profllm/pkg/workload/vllm/arguments"

// Options is the answer of args list and args show.
type Options struct {
	Head
	Release string             `json:"release,omitempty"` // of args list: the release whose options these are
	Options []arguments.Option `json:"options"`           // in the order of vLLM's parser
}

// OptionChanges is the answer of args diff.
type OptionChanges struct {
	Head
	Changes []arguments.Change `json:"changes"` // in the order of vLLM's parser
}
