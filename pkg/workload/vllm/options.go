package vllm

import (
	"cmp"
	"regexp"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// checkOptions refuses the options that `vllm serve` of the test's release would refuse, in its
// own words: the job would fail with them after its nodes were allocated.
func (w *Workload) checkOptions(r *serving.Role, c *source.Complaints) {
	for _, key := range r.Options.Keys() {
		if w.Unchecked(key) || w.Misspelt(r, key) || engine.Planned[key] != "" {
			continue
		}
		v := r.Options.Get(key)
		var words []string
		for _, word := range serving.Option(key, v, serving.Negatable) {
			words = append(words, word.String())
		}
		refusal := arguments.Check(w.release(), words...)
		if refusal == nil {
			continue
		}
		if refusal.Unknown {
			c.Add(source.Errorf(r.Options.KeyPos(key), "%s is an option of no release of vLLM that profllm knows (%s to %s)",
				r.Path(key), arguments.Oldest().Version, arguments.Newest().Version).
				Hintf("remove it; if your release has it, add it to cmd_args.unchecked_options"))
			continue
		}
		c.Add(source.Errorf(v.Pos, "%s: vLLM %s says: %s", r.Path(key), refusal.Release, refusal.Words).
			Hintf("%s", cmp.Or(refusal.Hint, "see profllm args show "+key)))
	}
}

// release is what the test says of vLLM's version: by engine_version, or by the tag of an official
// image; "" if it does not.
func (w *Workload) release() string {
	if w.EngineVersion != "" {
		return w.EngineVersion
	}
	if tag := officialImage.FindStringSubmatch(w.DockerImageURL); tag != nil {
		return tag[1]
	}
	return ""
}

// officialImage is an image of the vLLM project, whose tag is a version.
var officialImage = regexp.MustCompile(`(?:^|[/#+])vllm-openai(?:-[a-z0-9]+)?[:+]v?(\d+\.\d+\.\d+)`)
