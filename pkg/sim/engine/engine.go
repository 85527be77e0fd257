// Package engine is the simulated inference engine: it admits requests, lets tokens out when
// they are due, counts as vLLM does, and answers over HTTP.
package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// cacheTokens is the size of the simulated KV cache, in tokens.
const cacheTokens = 1 << 19

// An engine admits sequences and lets their tokens out when they are due. It is safe for
// concurrent use.
type engine struct {
	timing  knobs.Timing
	faults  knobs.Planted
	tokens  tokenizer
	metrics *registry
	slots   chan struct{} // one entry per admitted sequence; senders queue in order of arrival
	blocks  *blockCache   // nil: no prefix caching
	used    atomic.Int64  // KV cache tokens held by admitted sequences
	kv      *connector    // nil: no KV connector
	seen    atomic.Int64  // admitted sequences
	stall   outage
	profile profiler
}

func newEngine(c Config, k knobs.Settings, start time.Time) *engine {
	e := &engine{
		timing:  k.Timing,
		faults:  k.Planted,
		tokens:  tokenizer{bytes: k.Bytes},
		metrics: newRegistry(time.Now, families(c, k.Planted, cacheTokens)),
		slots:   make(chan struct{}, c.MaxSeqs),
	}
	e.stall.Moment = k.Planted.Stall
	setFixed(e.metrics, c, start)
	if c.Prefix {
		e.blocks = newBlockCache(c.BlockSize, cacheTokens/c.BlockSize)
	}
	return e
}

// A sequence is one prompt and the one answer to it.
type sequence struct {
	prompt  []int
	answer  answer
	arrived time.Time
	max     int // max_tokens, for the metrics
	seed    uint64
	remote  *KVParams // the KV cache comes from there; nil: computed here
	room    *uint64   // decode asks for the KV cache by this number; nil: it does not
	cached  int       // prompt tokens found in this server's cache, once admitted
	out     int       // tokens generated
}

// run waits for admission and then hands out the tokens, a chunk at a time, each when its last
// token is due. It returns early when ctx ends, emit fails or the KV cache cannot be fetched.
func (e *engine) run(ctx context.Context, s *sequence, emit func([]token) error) (err error) {
	m := e.metrics
	m.add("vllm:num_requests_waiting", 1)
	m.add("vllm:num_requests_waiting_by_reason", 1, "reason", "capacity")
	admitted := e.admit(ctx)
	m.add("vllm:num_requests_waiting", -1)
	m.add("vllm:num_requests_waiting_by_reason", -1, "reason", "capacity")
	if !admitted {
		m.add("vllm:request_success", 1, "finished_reason", "abort")
		return ctx.Err()
	}
	defer func() { <-e.slots }()
	m.add("vllm:num_requests_running", 1)
	defer m.add("vllm:num_requests_running", -1)
	e.hold(len(s.prompt) + len(s.answer.tokens))
	defer e.hold(-len(s.prompt) - len(s.answer.tokens))

	start := time.Now()
	r := &record{seq: s, start: start, last: start}
	defer func() { e.count(r, err) }()
	if err := e.fill(ctx, r); err != nil {
		return err
	}
	// Fetching from a prefill server took its own time; the schedule counts from its end.
	e.stall.begin()
	start = time.Now()
	due := request(e.timing, s.seed, s.remote != nil)
	due.first = e.late(due.first, e.seen.Add(1))
	for i := 0; i < len(s.answer.tokens); {
		n := min(e.faults.Bundle, len(s.answer.tokens)-i)
		if !program.Wait(ctx, time.Until(start.Add(due.due(e.last(i+n-1, len(s.answer.tokens)))))) {
			return ctx.Err()
		}
		held, ok := e.stall.hold(ctx)
		if !ok {
			return ctx.Err()
		}
		start = start.Add(held)
		r.step(e.metrics, n, e.faults.Miscount)
		if err := emit(s.answer.tokens[i : i+n]); err != nil {
			return err
		}
		i += n
	}
	if s.room != nil {
		e.kv.rooms.open(*s.room)
	}
	return nil
}

// last is the token with which token i of n goes out, under the fault burst.
func (e *engine) last(i, n int) int {
	if e.faults.Burst == 0 {
		return i
	}
	return min(i/e.faults.Burst*e.faults.Burst+e.faults.Burst, n) - 1
}

// late is the due time of the first token of the nth sequence under the faults.
func (e *engine) late(first time.Duration, n int64) time.Duration {
	if n <= int64(e.faults.Cold) {
		first *= 10
	}
	return first + time.Duration(n-1)*e.faults.Slowing
}

func (e *engine) admit(ctx context.Context) bool {
	select {
	case e.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// hold changes how much of the KV cache is in use.
func (e *engine) hold(tokens int) {
	used := e.used.Add(int64(tokens))
	e.metrics.set("vllm:kv_cache_usage_perc", min(1, float64(used)/cacheTokens))
}

// fill finds out where the prompt's KV cache comes from: this server's prefix cache, another
// server, or computation.
func (e *engine) fill(ctx context.Context, r *record) error {
	m, s := e.metrics, r.seq
	n := len(s.prompt)
	if e.blocks != nil {
		r.local = max(e.blocks.use(s.prompt), int(e.faults.Warm*float64(n)))
		s.cached = r.local
		m.add("vllm:prefix_cache_queries", float64(n))
		m.add("vllm:prefix_cache_hits", float64(r.local))
		m.add("vllm:prompt_tokens_cached_by_source", float64(r.local), "source", "device")
	}
	if e.kv != nil {
		m.add("vllm:external_prefix_cache_queries", float64(n-r.local))
	}
	if s.remote != nil && e.faults.Answer.Hits("recompute", e.timing.Seed, s.seed) {
		m.add("vllm:nixl_num_failed_transfers", 1)
		e.kv.note(transferStats{failed: 1})
	} else if s.remote != nil {
		r.external = n - r.local
		// A real engine counts these when it admits the request, before it knows whether the
		// transfer succeeds.
		m.add("vllm:external_prefix_cache_hits", float64(r.external))
		m.add("vllm:prompt_tokens_cached_by_source", float64(r.external), "source", "p2p")
		if err := e.kv.fetch(ctx, s.remote, r.external, m); err != nil {
			return err
		}
	}
	computed := n - r.local - r.external
	m.add("vllm:prompt_tokens", float64(n))
	m.add("vllm:prompt_tokens_cached", float64(r.local+r.external))
	m.add("vllm:prompt_tokens_by_source", float64(computed), "source", "local_compute")
	m.add("vllm:prompt_tokens_by_source", float64(r.local), "source", "local_cache_hit")
	m.add("vllm:prompt_tokens_by_source", float64(r.external), "source", "external_kv_transfer")
	r.pending = computed
	return nil
}

// A record gathers what the metrics say about one sequence.
type record struct {
	seq             *sequence
	start           time.Time // admission
	first, last     time.Time // first and newest token
	local, external int       // prompt tokens found in this cache and in another server's
	pending         int       // prompt tokens that the next iteration computes
}

// step counts one iteration of n tokens.
func (r *record) step(m *registry, n int, miscount float64) {
	now := time.Now()
	if r.seq.out == 0 {
		r.first = now
		m.observe("vllm:time_to_first_token_seconds", now.Sub(r.seq.arrived).Seconds())
		m.observeN("vllm:inter_token_latency_seconds", 0, n-1)
	} else {
		m.observeN("vllm:inter_token_latency_seconds", now.Sub(r.last).Seconds()/float64(n), n)
	}
	m.observe("vllm:iteration_tokens_total", float64(r.pending+n))
	m.add("vllm:generation_tokens", miscount*float64(n))
	r.pending = 0
	r.last = now
	r.seq.out += n
}

// count closes the books of a sequence.
func (e *engine) count(r *record, err error) {
	e.profile.add(r)
	m, s := e.metrics, r.seq
	reason := s.answer.finish
	switch {
	case isTransfer(err):
		reason = "error"
		// What the real engine reports as the first token is the failure.
		m.observe("vllm:time_to_first_token_seconds", time.Since(s.arrived).Seconds())
	case err != nil, knobs.Unit(e.timing.Seed+2, s.seed) < e.faults.Abort:
		reason = "abort"
	}
	m.add("vllm:request_success", 1, "finished_reason", reason)
	preempted := 0.0
	if knobs.Unit(e.timing.Seed, s.seed) < e.faults.Preempt {
		preempted = 1
		m.add("vllm:num_preemptions", 1)
	}
	if e.faults.Corrupt > 0 && knobs.Unit(e.timing.Seed+1, s.seed) < e.faults.Corrupt {
		m.add("vllm:corrupted_requests", 1)
	}
	if r.first.IsZero() {
		r.first = r.last
	}
	decode, perToken := r.last.Sub(r.first).Seconds(), 0.0
	if s.out > 1 {
		perToken = decode / float64(s.out-1)
	}
	m.observe("vllm:request_prompt_tokens", float64(len(s.prompt)))
	m.observe("vllm:request_generation_tokens", float64(s.out))
	m.observe("vllm:request_params_max_tokens", float64(s.max))
	m.observe("vllm:request_time_per_output_token_seconds", perToken)
	m.observe("vllm:e2e_request_latency_seconds", time.Since(s.arrived).Seconds())
	m.observe("vllm:request_queue_time_seconds", r.start.Sub(s.arrived).Seconds())
	m.observe("vllm:request_inference_time_seconds", r.last.Sub(r.start).Seconds())
	m.observe("vllm:request_prefill_time_seconds", r.first.Sub(r.start).Seconds())
	m.observe("vllm:request_decode_time_seconds", decode)
	m.observe("vllm:request_num_preemptions", preempted)
	m.observe("vllm:request_prefill_kv_computed_tokens", float64(len(s.prompt)-r.local))
}

// blockCache remembers which prompts' full blocks are cached, the newest size of them.
type blockCache struct {
	mu     sync.Mutex
	block  int // tokens per block
	known  map[uint64]bool
	ring   []uint64 // in order of arrival; the oldest goes first
	oldest int
}

func newBlockCache(block, size int) *blockCache {
	return &blockCache{block: block, known: map[uint64]bool{}, ring: make([]uint64, 0, max(1, size))}
}

// use returns how many tokens of the prompt's beginning are cached, and caches the rest of its
// full blocks. The last token is always computed, so a prompt that ends with a block never hits
// that block.
func (c *blockCache) use(prompt []int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	hit, chain := 0, uint64(0)
	for end := c.block; end <= len(prompt); end += c.block {
		chain = knobs.HashTokens(chain, prompt[end-c.block:end])
		if c.known[chain] {
			if hit == end-c.block && end < len(prompt) {
				hit = end
			}
			continue
		}
		c.put(chain)
	}
	return hit
}

func (c *blockCache) put(chain uint64) {
	c.known[chain] = true
	if len(c.ring) < cap(c.ring) {
		c.ring = append(c.ring, chain)
		return
	}
	delete(c.known, c.ring[c.oldest])
	c.ring[c.oldest] = chain
	c.oldest = (c.oldest + 1) % len(c.ring)
}

func (c *blockCache) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
	c.ring, c.oldest = c.ring[:0], 0
}
