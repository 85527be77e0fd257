package vllm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// maxReplicas is far above what one proxy is meant for.
const maxReplicas = 64

func decodeRole(kind string, t *source.Table, c *source.Complaints) role {
	r := role{kind: kind, table: t, engine: source.NewTable(source.Pos{}), replicas: 1}
	if t == nil {
		return r
	}
	own := source.Fields(role{})
	known := source.NewTable(t.Pos)
	for _, k := range own {
		if v := t.Get(k); v != nil {
			known.Set(k, v)
		}
	}
	c.Add(source.Decode(known, &r))
	r.engine = t.Without(own...)
	if v := r.GPUIDs; v != nil && !sweep(v, c) {
		s, ok := v.Any.(string)
		if !ok {
			c.Addf(v.Pos, "%s.gpu_ids must be a string such as \"0,1\", not the %s %v", kind, v.Kind(), v.Plain())
		} else if s != "" {
			ids, err := plan.ParseGPUs(s)
			if err != nil {
				c.Addf(v.Pos, "%s.gpu_ids: %v", kind, err)
			}
			r.gpus = ids
		}
	}
	if v := r.NumNodes; v != nil && !sweep(v, c) {
		n, ok := v.Int()
		if !ok || n < 1 {
			c.Addf(v.Pos, "%s.num_nodes must be a number of nodes, not %v", kind, v.Plain())
		}
		r.nodes = int(max(n, 0))
	}
	if v := r.Replicas; v != nil && !sweep(v, c) {
		n, ok := v.Int()
		if !ok || n < 1 || n > maxReplicas {
			c.Addf(v.Pos, "%s.replicas must be a number of instances from 1 to %d, not %v", kind, maxReplicas, v.Plain())
			n = 1
		}
		r.replicas = int(n)
	}
	if v := r.NIXLThreads; v != nil && !sweep(v, c) {
		if n, ok := v.Int(); !ok || n < 1 {
			c.Addf(v.Pos, "%s.nixl_threads must be a number of threads, not %v", kind, v.Plain())
		}
	}
	return r
}

// sweep complains of a list where one value is wanted.
func sweep(v *source.Value, c *source.Complaints) bool {
	if _, list := v.Any.([]*source.Value); !list {
		return false
	}
	c.Add(source.Errorf(v.Pos, "a list makes a sweep, but here one value must stand").Hintf("write one value, or take the key out of dse_excluded_args"))
	return true
}

// The options that decide how many GPUs a server needs.
const (
	tp = "tensor_parallel_size"
	pp = "pipeline_parallel_size"
	dp = "data_parallel_size"
)

// option returns an option of the engine in either spelling, or nil.
func (r *role) option(key string) *source.Value {
	if v := r.engine.Get(key); v != nil {
		return v
	}
	return r.engine.Get(strings.ReplaceAll(key, "_", "-"))
}

// size is one of the parallel sizes, 1 if it is not set.
func (r *role) size(key string) int {
	if v := r.option(key); v != nil {
		if n, ok := v.Int(); ok {
			return int(max(n, 1))
		}
	}
	return 1
}

// world is how many GPUs one instance needs.
func (r *role) world() int { return r.size(tp) * r.size(pp) * r.size(dp) }

// extra adds extra_cmd_args to every server's options.
func (w *Workload) extra(t *source.Table, c *source.Complaints) {
	if t == nil || len(t.Keys()) == 0 {
		return
	}
	for _, key := range t.Keys() {
		v := t.Get(key)
		if _, ok := v.Text(); !ok {
			c.Add(source.Errorf(v.Pos, "extra_cmd_args.%s must be a string, not the %s %v", key, v.Kind(), v.Plain()).Hintf("write %s = \"%v\"", key, v.Plain()))
			continue
		}
		name := strings.ReplaceAll(strings.TrimLeft(key, "-"), "-", "_")
		for _, r := range w.roles() {
			if r.option(name) != nil || slices.Contains(source.Fields(role{}), name) {
				c.Add(source.Errorf(v.Pos, "extra_cmd_args.%s: %s has that key too", key, r.kind).Hintf("set it once, in [cmd_args.%s] or here", r.kind))
				continue
			}
			r.engine.Set(name, v)
		}
	}
	w.notes = append(w.notes, fmt.Sprintf("%s: extra_cmd_args are passed to every `vllm serve`; CloudAI ignores them for this workload", t.Pos))
}

// roles are those that serve.
func (w *Workload) roles() []*role {
	if w.disaggregated() {
		return []*role{&w.prefill, &w.decode}
	}
	return []*role{&w.decode}
}

func (w *Workload) check(needImage bool, c *source.Complaints) {
	cfg := &w.cfg
	if cfg.DockerImageURL == "" && needImage {
		c.Add(source.Errorf(w.args.Pos, "cmd_args.docker_image_url is required").
			Hintf("name the image, or set launcher = \"bare\" to run without a container"))
	}
	if cfg.Port < 1024 || cfg.Port > 65535-2*roleStride-plan.Slots {
		c.Addf(w.args.PosOf("port"), "cmd_args.port is %d, must be 1024-%d: the job's slot and %d for the roles are added", cfg.Port, 65535-2*roleStride-plan.Slots, 2*roleStride)
	}
	if strings.ContainsAny(cfg.BenchHost, "/ ") {
		c.Add(source.Errorf(w.args.PosOf("bench_host"), "bench_host %q must be a host, without scheme or path", cfg.BenchHost).
			Hintf("write bench_host = \"node1\""))
	}
	for key, v := range map[string]*string{"healthcheck": cfg.Healthcheck, "serve_healthcheck": cfg.ServeHealthcheck, "proxy_healthcheck": cfg.ProxyHealthcheck} {
		if v != nil && !strings.HasPrefix(*v, "/") {
			c.Add(source.Errorf(w.args.PosOf(key), "%s %q must begin with a slash", key, *v).Hintf("write %s = \"/%s\"", key, *v))
		}
	}
	if w.wait <= 0 {
		c.Addf(w.args.PosOf("serve_wait_seconds"), "serve_wait_seconds is %d, must be 1 or more", *cfg.ServeWaitSeconds)
	}
	if w.disaggregated() && (w.prefill.gpus == nil) != (w.decode.gpus == nil) {
		has, lacks := w.prefill, w.decode
		if has.gpus == nil {
			has, lacks = lacks, has
		}
		c.Add(source.Errorf(has.table.PosOf("gpu_ids"), "%s.gpu_ids is set and %s.gpu_ids is not", has.kind, lacks.kind).
			Hintf("set both or neither"))
	}
	if !w.disaggregated() && w.decode.replicas > 1 {
		c.Add(source.Errorf(w.decode.table.PosOf("replicas"), "decode.replicas is %d without [cmd_args.prefill]: the proxy pairs prefill with decode, and spreads requests over nothing else", w.decode.replicas).
			Hintf("add [cmd_args.prefill], or take data_parallel_size for several engines behind one server"))
	}
	for _, r := range []*role{&w.prefill, &w.decode} {
		r.check(c)
	}
}

func (r *role) check(c *source.Complaints) {
	for _, k := range r.engine.Keys() {
		if k == "host" || k == "port" {
			c.Add(source.Errorf(r.engine.PosOf(k), "%s.%s: the plan sets the %s of every server", r.kind, k, k).Hintf("set cmd_args.%s", k))
		}
	}
	for _, k := range []string{tp, pp, dp} {
		v := r.option(k)
		if v == nil || sweep(v, c) {
			continue
		}
		if n, ok := v.Int(); !ok || n < 1 {
			c.Addf(v.Pos, "%s.%s must be a number of 1 or more, not %v", r.kind, k, v.Plain())
		}
	}
	// CloudAI's constraint: this backend does not go with data and expert parallelism together.
	backend, _ := r.option("all2all_backend").Text()
	expert := false
	if v := r.option("enable_expert_parallel"); v != nil {
		expert, _ = v.Bool()
		if s, text := v.Any.(string); text && s == "" { // a bare flag
			expert = true
		}
	}
	if n := r.size(dp); backend == "flashinfer_all2allv" && n > 1 && expert {
		c.Add(source.Errorf(r.option("all2all_backend").Pos, "%s: all2all_backend %q does not go with data_parallel_size %d and enable_expert_parallel together", r.kind, backend, n).
			Hintf("choose another all2all_backend, or set data_parallel_size = 1"))
	}
}
