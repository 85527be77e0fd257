package engine

import (
	"slices"

	"github.com/profllm/profllm/pkg/sim/knobs"
)

// Connectors that hand no KV cache to another server: what they keep comes back to this one,
// from the host's memory or from a cache server.
var (
	offloading  = []string{"OffloadingConnector", "SimpleCPUOffloadConnector"}
	cacheServer = []string{"LMCacheConnectorV1", "LMCacheMPConnector"}
)

// decodeBench pretends that every prompt was computed elsewhere.
const decodeBench = "DecodeBenchConnector"

// connectors are those in use: the one that is named, or those inside it.
func (c Config) connectors() []string {
	if len(c.Inside) > 0 || c.Connector == "" {
		return c.Inside
	}
	return []string{c.Connector}
}

// transfers reports whether a connector hands KV caches to other servers, which needs a side
// channel. One that is not known here is taken for NIXL.
func (c Config) transfers() bool {
	return slices.ContainsFunc(c.connectors(), func(name string) bool {
		return name != decodeBench && !slices.Contains(offloading, name) && !slices.Contains(cacheServer, name)
	})
}

// has reports whether one of these connectors is in use.
func (c Config) has(names ...string) bool {
	return slices.ContainsFunc(c.connectors(), func(name string) bool { return slices.Contains(names, name) })
}

// storeTimes is how much larger than the GPUs' cache the simulated store is.
const storeTimes = 8

// newStore is what connectors that keep KV blocks keep them in; nil without one.
func newStore(c Config) *blockCache {
	if !c.has(offloading...) && !c.has(cacheServer...) {
		return nil
	}
	return newBlockCache(c.BlockSize, storeTimes*cacheTokens/c.BlockSize)
}

// reload returns how many tokens of a prompt, beyond those in the GPUs' cache, come from the
// store, and puts what is new into it. With DecodeBenchConnector, all but the last do.
func (e *engine) reload(prompt []int, local int) int {
	switch {
	case e.benched:
		return max(0, len(prompt)-1-local)
	case e.store == nil:
		return 0
	}
	m := e.metrics
	hit := max(e.store.use(prompt), local)
	full := len(prompt) / e.store.block * e.store.block
	if e.offloads {
		m.add("vllm:kv_offload_load_bytes", float64((hit-local)*bytesPerToken))
		m.add("vllm:kv_offload_store_bytes", float64(max(0, full-hit)*bytesPerToken))
	}
	return hit - local
}

// reloaded names the source of those tokens in the metrics.
func (e *engine) reloaded() string {
	if e.offloads {
		return "host"
	}
	return "external_unspecified"
}

// storeFamilies are those of vLLM's offloading connector that have a meaning here.
func storeFamilies(c Config, one [][]string) []*family {
	if !c.has(offloading...) {
		return nil
	}
	return []*family{
		{name: "vllm:kv_offload_load_bytes", kind: counter, labels: one},
		{name: "vllm:kv_offload_store_bytes", kind: counter, labels: one},
	}
}

// acceptance is how often the simulated draft of the next token is right.
const acceptance = 0.7

// step is how many tokens the step that begins with token i lets out: one, and under
// speculative decoding those drafts behind it that are accepted.
func (e *engine) step(s *sequence, i int) int {
	left := len(s.answer.tokens) - i
	if e.draft == 0 || i == 0 { // the first token comes from the prompt itself
		return min(e.faults.Bundle, left)
	}
	accepted := 0
	for accepted < min(e.draft, left-1) && knobs.Unit(knobs.Mix(s.seed, uint64(i)), uint64(accepted)) < acceptance {
		accepted++
	}
	m := e.metrics
	m.add("vllm:spec_decode_num_drafts", 1)
	m.add("vllm:spec_decode_num_draft_tokens", float64(e.draft))
	m.add("vllm:spec_decode_num_accepted_tokens", float64(accepted))
	for pos := range accepted {
		m.add("vllm:spec_decode_num_accepted_tokens_per_pos", 1, "position", decimal(pos))
	}
	return accepted + 1
}

// draftFamilies are there with speculative decoding only.
func draftFamilies(c Config, one [][]string, each func(string, ...string) [][]string) []*family {
	if c.Draft == 0 {
		return nil
	}
	var positions []string
	for pos := range c.Draft {
		positions = append(positions, decimal(pos))
	}
	return []*family{
		{name: "vllm:spec_decode_num_drafts", kind: counter, labels: one},
		{name: "vllm:spec_decode_num_draft_tokens", kind: counter, labels: one},
		{name: "vllm:spec_decode_num_accepted_tokens", kind: counter, labels: one},
		{name: "vllm:spec_decode_num_accepted_tokens_per_pos", kind: counter, labels: each("position", positions...)},
	}
}
