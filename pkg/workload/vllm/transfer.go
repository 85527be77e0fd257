package vllm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
)

// transfer is what a role's kv_transfer_config says of how its KV blocks move, as far as
// the other role and the proxy depend on it.
type transfer struct {
	Connector string `json:"kv_connector"`
	Role      string `json:"kv_role"`
	Extra     struct {
		Connectors []transfer `json:"connectors"` // of a MultiConnector
	} `json:"kv_connector_extra_config"`
}

// names are the connectors, those inside a MultiConnector instead of it.
func (t transfer) names() []string {
	if len(t.Extra.Connectors) == 0 {
		return []string{t.Connector}
	}
	var all []string
	for _, c := range t.Extra.Connectors {
		all = append(all, c.names()...)
	}
	return all
}

// stores are connectors that pass KV blocks through a store and answer no
// kv_transfer_params, which is all that a proxy can hand over.
var stores = []string{"LMCacheConnectorV1", "LMCacheMPConnector"}

// needsOwnProxy is the connector that reads its peer's address out of request ids that
// only vLLM's proxy for it makes.
const needsOwnProxy = "P2pNcclConnector"

// checkTransfer refuses prefill and decode that cannot hand KV blocks to each other, and
// notes what may not reach decode through our proxy.
func (w *Workload) checkTransfer(c *source.Complaints) {
	if !w.Disaggregated() {
		return
	}
	var names [2][]string
	var at source.Pos
	for i, r := range []*serving.Role{&w.Prefill, &w.Decode} {
		v := r.Option("kv_transfer_config")
		if v == nil {
			names[i] = []string{"NixlConnector"} // ours
			continue
		}
		at = v.Pos
		t, err := transferOf(v)
		if err != nil {
			c.Add(source.Errorf(v.Pos, "%s.kv_transfer_config: %v", r.Kind, err))
			return
		}
		if wrong := map[string]string{serving.Prefill: "kv_consumer",
			serving.Decode: "kv_producer"}[r.Kind]; t.Role == wrong {
			c.Add(source.Errorf(v.Pos, "%s.kv_transfer_config: kv_role is %q, so no KV blocks would be transferred",
				r.Kind, wrong).
				Hintf("set kv_producer for prefill and kv_consumer for decode, or kv_both for both"))
		}
		names[i] = t.names()
	}
	common := slices.DeleteFunc(slices.Clone(names[0]), func(n string) bool { return !slices.Contains(names[1], n) })
	switch own := w.cfg.ProxyScript == nil; {
	case len(common) == 0:
		c.Add(source.Errorf(at,
			"prefill transfers KV blocks with %s, but decode with %s: they have no connector in common",
			strings.Join(names[0], " and "), strings.Join(names[1], " and ")))
	case own && slices.Contains(common, needsOwnProxy):
		c.Add(source.Errorf(at,
			"%s needs vLLM's own proxy, because it reads the address of its peer from the request id", needsOwnProxy).
			Hintf("set proxy_script to that proxy, or use NixlConnector"))
	case own && !slices.ContainsFunc(common, func(n string) bool { return !slices.Contains(stores, n) }):
		w.transferNote = fmt.Sprintf("%s: %s on both roles does not use what the proxy hands over; decode computes every prompt again unless both reach the same store (a MultiConnector with NixlConnector hands the blocks over)",
			at, strings.Join(common, " and "))
	}
}

// transferOf decodes a table, or JSON in a string.
func transferOf(v *source.Value) (transfer, error) {
	var t transfer
	text := serving.Scalar(v)
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return t, fmt.Errorf("it must be a table or a JSON object with kv_connector, not %.80s", text)
	}
	if t.Connector == "" {
		return t, fmt.Errorf("kv_connector is missing")
	}
	return t, nil
}
