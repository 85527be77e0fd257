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

// CapturedOptions is the answer of args capture.
type CapturedOptions struct {
	Head
	Version string             `json:"version,omitempty"` // of the vLLM whose options these are, as it says or as was given
	Release string             `json:"release"`           // of the catalogue: the one with which they are compared
	Options []arguments.Option `json:"options"`           // in the order of the help, without kinds and limits, which it does not have
	Changes []arguments.Change `json:"changes"`           // from the catalogue to these
}
