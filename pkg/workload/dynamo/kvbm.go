package dynamo

import (
	"encoding/json"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// cuFile is the name of cuFile's settings, by which caches write to storage past the CPUs, below
// the run's files.
const cuFile = "cufile.json"

// cuFileSettings are CloudAI's (its ai_dynamo.sh, setup_cufile).
func cuFileSettings(logs, level string) string {
	text, _ := json.MarshalIndent(map[string]any{ // plain values always encode
		"logging": map[string]any{"dir": logs, "level": level},
		"properties": map[string]any{
			"allow_compat_mode": true, "max_direct_io_size_kb": 16384, "max_device_cache_size_kb": 2097152,
			"per_buffer_cache_size_kb": 16384, "max_device_pinned_mem_size_kb": 33554432,
			"posix_pool_slab_size_kb": []int{4, 1024, 16384}, "posix_pool_slab_count": []int{512, 512, 512},
		},
	}, "", "  ")
	return string(text) + "\n"
}

// kvbm reports whether workers of a role have KVBM, Dynamo's manager of KV blocks.
func (w *Workload) kvbm(r *role) bool {
	return r.nodes > 0 && w.backend.module == vllmModule && w.connects(r, kvbmConnector)
}

// hasKVBM reports whether any worker has it.
func (w *Workload) hasKVBM() bool { return w.kvbm(&w.prefill) || w.kvbm(&w.decode) }

// kvbmConnector is vLLM's name of KVBM's connector.
const kvbmConnector = "DynamoConnector"

// connectorPos is where the connectors of a role are named.
func (r *role) connectorPos(w *Workload) source.Pos {
	if _, pos, times := w.said(r, transferConfig); times > 0 && len(r.connectors) == 0 {
		return pos
	}
	return r.connectorAt
}

// addKVBM adds the folder of KVBM's blocks on every node, and what cuFile reads.
func (w *Workload) addKVBM(s *plan.Service, cl plan.Cluster) {
	if !w.stores() {
		return
	}
	level, _ := w.env.Get("CUFILE_LOG_LEVEL").Text()
	if level == "" {
		level = "INFO"
	}
	s.Files = append(s.Files, plan.File{Name: cuFile, Text: plan.Text(cuFileSettings(cl.Dir+"/logs", level))})
	if w.hasKVBM() {
		w.addStorage(s, cl, "kvbm")
	}
}

// kvbmEnv are the variables that tell a worker the ports and the folder of its KVBM.
func (w *Workload) kvbmEnv(s *plan.Service, one instance, cl plan.Cluster) []plan.Var {
	if !w.kvbm(one.role) {
		return nil
	}
	pub := one.port(one.name+"_kvbm_pub", w.bases.KVBMPub, 1)
	ack := one.port(one.name+"_kvbm_ack", w.bases.KVBMAck, 1)
	s.Ports = append(s.Ports, pub, ack)
	env := []plan.Var{
		{Name: "DYN_KVBM_LEADER_ZMQ_PUB_PORT", Value: plan.Word{plan.PortNumber(pub.Name)}},
		{Name: "DYN_KVBM_LEADER_ZMQ_ACK_PORT", Value: plan.Word{plan.PortNumber(ack.Name)}},
		{Name: "DYN_KVBM_DISK_CACHE_DIR", Value: plan.Text(w.storage(cl, "kvbm"))},
	}
	if one.nodes.Count > 1 {
		env = append(env, plan.Var{Name: "DYN_KVBM_LEADER_ZMQ_HOST", Value: plan.Word{plan.Addr(one.name)}})
	}
	if w.kvbmMeasured() {
		metrics := one.port(one.kvbmMetrics(), w.bases.KVBMMetrics, 1)
		s.Ports = append(s.Ports, metrics)
		env = append(env, plan.Var{Name: "DYN_KVBM_METRICS_PORT", Value: plan.Word{plan.PortNumber(metrics.Name)}})
	}
	return env
}

// kvbmMetrics is the port of the counters of a worker's KVBM.
func (i instance) kvbmMetrics() string { return i.name + "_kvbm_metrics" }

// kvbmMeasured reports whether KVBM has counters.
func (w *Workload) kvbmMeasured() bool {
	text, _ := w.env.Get("DYN_KVBM_METRICS").Text()
	return text == "1" || strings.EqualFold(text, "true")
}
