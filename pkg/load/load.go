// Package load drives an OpenAI-compatible server with requests on a schedule and measures what
// comes back.
//
// It is the client behind "profllm bench serve": it takes the flags of "vllm bench serve",
// sends the same traffic (Poisson or Gamma arrivals, ramp-up, a cap on concurrency) and writes
// the same result keys, so that whoever reads vLLM's files reads these. It starts no server,
// has no tokenizer and judges nothing: whether a result is valid is decided where results are
// collected. Prompts come from package dataset. Where that needs tokens of text, or text of
// tokens, the server under load is asked before the load.
//
// What is timed. The clock of a request starts when its first byte is handed to a connection
// that is already open. vLLM starts it before it looks for a connection, so that opening many
// of them at once counts as time to first token; here that time is reported as send delay. A
// token arrives when the kernel receives the last byte of its event, as far as the kernel says
// so; else when the client has read it.
//
// Where results differ from vLLM's, on purpose:
//   - only an event with text, reasoning or a part of a tool call is a token (package answer), not any with choices: a
//     role that comes early, and an end that comes as an event of its own, are none;
//   - a stream counts as completed only if the server says that it is whole: a stream that carries an error event or
//     what is no event, breaks off, ends with finish_reason "abort" or "error", or whose usage holds no believable
//     numbers has failed, even after its first token, and a failed request reports no TTFT, gaps or latency;
//   - a request is sent again only if the server cannot have read it, at most once, and its times count from the first
//     send (profllm.retried says how often);
//   - a server that names no token usage gets its tokens counted by stream events (profllm.usage_missing says how
//     often), as there is no tokenizer to count with;
//   - num_prompts is the number of requests of the load, which can differ from --num-prompts where a data set decides;
//   - burstiness "inf" is written as a string, never as the bare token Infinity;
//   - max_concurrent_requests is the exact overlap of requests, which never exceeds --max-concurrency;
//   - a run that completes nothing is an error ([ErrNoneCompleted]) although its file is written;
//   - an interrupted run writes what it has and says so (profllm.partial).
//
// Several processes can share a load ([Shared]); the first reports what all of them measured.
//
// Example:
//
//	o, err := load.ParseArgs([]string{"--model", "tiny", "--num-prompts", "64", "--request-rate", "20"})
//	…
//	report, err := load.Run(ctx, o, time.Now, os.Stdout, os.Stderr)
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/sender"
	"github.com/profllm/profllm/pkg/pyjson"
)

// ErrNoneCompleted reports that no request succeeded. The report and the result file are
// complete nevertheless.
var ErrNoneCompleted = errors.New("no request completed")

// ErrInterrupted reports that the context ended before the run did. The report holds what had
// been measured.
var ErrInterrupted = errors.New("interrupted")

// Run drives the server that o names until every request has ended or ctx is done, prints
// vLLM's summary on stdout and progress on stderr, and writes the result file if o asks for
// one. now is the clock; time.Now in production.
//
// The report is nil only if nothing was measured: the options are wrong, the model cannot be
// asked for, or the readiness check fails. Otherwise it is complete even beside an error, which
// wraps [ErrNoneCompleted], [ErrInterrupted] or a failure to write the file.
func Run(ctx context.Context, o Options, now func() time.Time, stdout, stderr io.Writer) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	to, err := o.target()
	if err != nil {
		return nil, err
	}
	snd, err := sender.Open(ctx, to)
	if err != nil {
		return nil, err
	}
	defer snd.Close()
	if o.Rank > 0 {
		return nil, o.work(ctx, snd, now)
	}
	return drive(ctx, &o, snd, now, stdout, stderr)
}

// drive is Run with valid options and a sender.
func drive(
	ctx context.Context, o *Options, snd sender.Sender, now func() time.Time, stdout, stderr io.Writer,
) (*Report, error) {
	api := newServer(o)
	model, err := api.model(ctx, o)
	if err != nil {
		return nil, err
	}
	origin := now()
	r := runner{o: o, model: model, api: api, snd: snd, now: now, stdout: stdout, stderr: stderr,
		origin: origin, clock: func() int64 { return int64(now().Sub(origin)) },
	}
	prefix := o.requestPrefix()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	if r.crew, err = o.call(ctx, prefix, r.clock, lost, stderr); err != nil {
		return nil, err
	}
	defer r.crew.close()
	body, err := newBodies(ctx, o, model, api, stderr)
	if err != nil {
		return nil, err
	}
	r.traffic = traffic{body, prefix}
	if err := r.waitReady(ctx); err != nil {
		return nil, err
	}
	o.label(ctx, api, stdout)
	if err := r.warmUp(ctx); err != nil {
		return nil, err
	}
	if r.prober, err = r.openProber(ctx); err != nil {
		return nil, err
	}
	if r.prober != nil {
		defer r.prober.snd.Close()
	}
	if r.crew != nil {
		if err := r.crew.Gather(ctx, r.traffic.digest()); err != nil {
			return nil, err
		}
		r.snd = r.crew.Share(snd, lost)
	}
	m := r.measure(ctx)
	report := newReport(m)
	err = errors.Join(r.publish(ctx, report), m.plot(report, r.stderr))
	if o.SaveRequests != "" {
		name, saveErr := m.saveRequests(r.traffic)
		if saveErr == nil {
			fmt.Fprintf(r.stderr, "wrote %s\n", name)
		}
		err = errors.Join(err, saveErr)
	}
	return report, err
}

// SimulatedMark is what a result file says of itself whose servers were simulated, so that the label is not
// lost when the file leaves its run.
const SimulatedMark = "simulated=true"

// ownerLimit is how long a server may take to say who owns its models.
const ownerLimit = 10 * time.Second

// label marks the result of servers that are simulated. One that does not answer is taken for a real one.
func (o *Options) label(ctx context.Context, api *server, stdout io.Writer) {
	if o.Simulated == nil || slices.Contains(o.Metadata, SimulatedMark) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ownerLimit)
	defer cancel()
	var list struct {
		Data []struct {
			Owner string `json:"owned_by"`
		}
	}
	if api.call(ctx, "GET", "/v1/models", nil, &list) != nil || len(list.Data) == 0 {
		return
	}
	if notice := o.Simulated(list.Data[0].Owner); notice != "" {
		fmt.Fprintln(stdout, notice)
		o.Metadata = append(o.Metadata, SimulatedMark)
	}
}

// A runner holds what the parts of one run share.
type runner struct {
	o              *Options
	model          model
	api            *server
	snd            sender.Sender
	traffic        traffic
	prober         *prober      // nil if nothing is probed
	crew           *crew        // nil if no other process sends
	coldWarmUps    int          // warm-up requests that failed
	origin         time.Time    // when the run began
	clock          func() int64 // now, in ns since then
	now            func() time.Time
	stdout, stderr io.Writer
}

// load returns the load of sending n requests.
func (r *runner) load(requests sender.Requests, n int) *sender.Load {
	return &sender.Load{
		Requests: requests, Outcomes: make([]answer.Outcome, n), Limit: r.o.concurrency(), Clock: r.clock,
	}
}

// again returns the load of sending the first request n times at once.
func (r *runner) again(n int) *sender.Load {
	j := r.load(opener{r.traffic}, n)
	for i := range j.Outcomes {
		j.Outcomes[i].Due = r.clock()
	}
	return j
}

// readyPause is the time between two readiness checks; vLLM waits 5 s.
const readyPause = 500 * time.Millisecond

// waitReady sends the first sample until it succeeds or the time that the options allow is over.
func (r *runner) waitReady(ctx context.Context) error {
	if r.o.ReadyCheckTimeoutSec <= 0 {
		fmt.Fprintln(r.stdout, "Skipping endpoint ready check.")
		return nil
	}
	limit := time.Duration(r.o.ReadyCheckTimeoutSec) * time.Second
	fmt.Fprintf(r.stdout, "Waiting for endpoint to become up in %d seconds\n", r.o.ReadyCheckTimeoutSec)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := "no answer"
	for {
		probe := r.again(1)
		r.snd.Run(limited, probe)
		first := &probe.Outcomes[0]
		if first.State == answer.Completed {
			fmt.Fprintln(r.stdout, "Initial test run completed.")
			return nil
		}
		if first.Err != "" && first.Err != last {
			last = first.Err
			fmt.Fprintf(r.stderr, "endpoint is not ready: %s\n", last)
		}
		select {
		case <-time.After(readyPause):
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("%w during the ready check: %w", ErrInterrupted, context.Cause(ctx))
			}
			return fmt.Errorf("ready check: the first request did not succeed within %s: %s", limit, last)
		}
	}
}

// warmUp sends copies of the first sample, which are part of no metric.
func (r *runner) warmUp(ctx context.Context) error {
	if r.o.NumWarmups == 0 {
		return nil
	}
	fmt.Fprintf(r.stdout, "Warming up with %d requests...\n", r.o.NumWarmups)
	warm := r.again(r.o.NumWarmups)
	r.snd.Run(ctx, warm)
	if ctx.Err() != nil {
		return fmt.Errorf("%w during the warm-up: %w", ErrInterrupted, context.Cause(ctx))
	}
	first := ""
	for i := range warm.Outcomes {
		if o := &warm.Outcomes[i]; o.State == answer.Failed {
			r.coldWarmUps++
			first = cmp.Or(first, o.Err)
		}
	}
	if first != "" {
		fmt.Fprintf(r.stderr, "%d of %d warm-up requests failed, the first with: %s\n", r.coldWarmUps, r.o.NumWarmups,
			first)
	}
	fmt.Fprintln(r.stdout, "Warmup run completed.")
	return nil
}

// mainLoad returns the load proper, and when its requests are due, from its start, and at which
// rates.
func (r *runner) mainLoad() (load *sender.Load, arrivals []time.Duration, rates []float64) {
	load = r.load(r.traffic, len(r.traffic.requests))
	load.KeepText = r.o.SaveDetailed
	arrivals, rates = r.arrivals()
	if r.traffic.talks != nil {
		r.traffic.talks.follow(load)
	}
	return load, arrivals, rates
}

// measure runs the load proper.
func (r *runner) measure(ctx context.Context) *measurement {
	load, arrivals, rates := r.mainLoad()
	heads := r.traffic.heads()
	r.snd.Connect(ctx, r.o.streams(heads), r.clock)
	fmt.Fprintln(r.stdout, "Starting main benchmark run...")
	r.profile(ctx, "start")
	r.announce()

	stop := r.watch(&load.Ended.N, len(load.Outcomes), progressPause)
	now := r.now() // one reading for both: this process may lose its processor between two
	m := &measurement{
		options: r.o, model: r.model, requests: r.traffic.requests, outcomes: load.Outcomes,
		talks: r.traffic.talks, prompts: r.traffic.prompts(),
		arrivals: arrivals, rates: rates,
		started: now, begin: int64(now.Sub(r.origin)), coldWarmUps: r.coldWarmUps, processes: 1,
	}
	if r.crew != nil {
		m.begin += startLead
		m.started = m.started.Add(time.Duration(startLead))
	}
	endProbes := r.prober.start(ctx)
	cpu := sender.CPUTime()
	for i, a := range arrivals {
		load.Outcomes[i].Due = m.begin + int64(a)
	}
	m.client = r.snd.Run(ctx, load)
	if m.end = load.Ended.Last.Load(); ctx.Err() != nil {
		m.end = r.clock()
	}
	if len(arrivals) > 0 && arrivals[0] == 0 {
		m.beginWithFirstSend()
	}
	m.cpu = sender.CPUTime() - cpu
	if r.crew != nil {
		m.cpu += r.crew.CPU()
		m.processes, m.clockError = r.o.count(), r.crew.ClockError()
	}
	stop()
	m.probes = endProbes()
	r.profile(context.WithoutCancel(ctx), "stop")
	return m
}

// arrivals returns when requests are due and at which rates: by the data set, or by the options.
func (r *runner) arrivals() (due []time.Duration, rates []float64) {
	if !r.o.Timed() {
		return schedule(r.o, r.traffic.heads())
	}
	requests := r.traffic.requests
	due = make([]time.Duration, len(requests))
	last := time.Duration(0)
	for i := range requests {
		last = max(last, requests[i].Due) // one after the other, as in vLLM
		due[i] = last
	}
	return due, make([]float64, len(requests))
}

// startLead is how long before the start of a load all processes that share it are told, in ns.
const startLead = int64(50 * time.Millisecond)

// publish prints the report, writes its file and says what is wrong with the run.
func (r *runner) publish(ctx context.Context, report *Report) error {
	report.writeErrors(r.stdout)
	err := report.WriteTable(r.stdout)
	if r.o.SaveResult || r.o.AppendResult {
		name, saveErr := report.save(r.o)
		if saveErr == nil {
			fmt.Fprintf(r.stderr, "wrote %s\n", name)
		}
		err = errors.Join(err, saveErr)
	}
	if p := report.Probes; p != nil && p.Failed > 0 {
		fmt.Fprintf(r.stderr, "%d of %d probes failed, the first with: %s\n", p.Failed, p.Failed+p.Completed,
			p.firstError)
	}
	switch {
	case report.Client.Partial:
		err = errors.Join(fmt.Errorf("%w after %d of %d requests: %w", ErrInterrupted,
			report.Completed+report.Failed, len(r.traffic.requests), context.Cause(ctx)), err)
	case report.Completed == 0:
		err = errors.Join(fmt.Errorf("%w: all %d failed, the first with: %s", ErrNoneCompleted, report.Failed,
			report.firstError()), err)
	}
	return err
}

// announce prints what vLLM prints before its table; logs are searched for these lines.
func (r *runner) announce() {
	o, w := r.o, r.stdout
	if o.RampUpStrategy != "" {
		fmt.Fprintf(w, "Traffic ramp-up strategy: %s.\n", o.RampUpStrategy)
		fmt.Fprintf(w, "Will increase RPS from %d to %d RPS over the duration of the benchmark.\n",
			*o.RampUpStartRPS, *o.RampUpEndRPS)
	} else if o.Timed() {
		fmt.Fprintln(w, "Self timing is set: requests are sent at the times of the trace.")
	} else {
		fmt.Fprintf(w, "Traffic request rate: %s\n", pyjson.Float(o.RequestRate))
	}
	law := "Gamma distribution"
	if o.Burstiness == 1 {
		law = "Poisson process"
	}
	fmt.Fprintf(w, "Burstiness factor: %s (%s)\n", pyjson.Float(o.Burstiness), law)
	limit := "None"
	if o.MaxConcurrency != nil {
		limit = fmt.Sprint(*o.MaxConcurrency)
	}
	fmt.Fprintf(w, "Maximum request concurrency: %s\n", limit)
	if o.ProbeRequestRate > 0 {
		fmt.Fprintf(w, "Probe request rate: %s req/s\n", pyjson.Float(o.ProbeRequestRate))
	}
}

// profile asks the server to start or stop its profiler if a profile is wanted. A refusal is
// printed; it stops nothing.
func (r *runner) profile(ctx context.Context, verb string) {
	if !r.o.Profile {
		return
	}
	if err := r.api.call(ctx, "POST", "/"+verb+"_profile", nil, nil); err != nil {
		fmt.Fprintf(r.stderr, "%s profiler: %v\n", verb, err)
		return
	}
	fmt.Fprintf(r.stdout, "Profiler: %s\n", verb)
}

// progressPause is the time between two lines of progress.
const progressPause = 5 * time.Second

// watch prints how many requests have ended on a line of its own, every pause, until the
// function it returns is called. Whoever follows the log reads these lines; a run shorter than
// that has none.
func (r *runner) watch(done *atomic.Int64, all int, pause time.Duration) (stop func()) {
	if r.o.DisableTqdm {
		return func() {}
	}
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				fmt.Fprintf(r.stderr, "load: %d/%d done\n", done.Load(), all)
			}
		}
	}()
	return func() { close(quit); <-over }
}

// requestPrefix returns the prefix of x-request-id: what was asked for, or a random one.
func (o *Options) requestPrefix() string {
	if o.RequestIDPrefix != "" {
		return o.RequestIDPrefix
	}
	return fmt.Sprintf("bench-%08x-", rand.Uint32())
}

// concurrency returns the cap on requests in flight; the largest int means none.
func (o *Options) concurrency() int {
	if o.MaxConcurrency == nil {
		return math.MaxInt
	}
	return *o.MaxConcurrency
}

// spareConnections are opened before a run at a finite rate, whose concurrency is not known in
// advance.
const spareConnections = 32

// streams returns how many connections to open before a run of n requests.
func (o *Options) streams(n int) int {
	n = min(n, o.concurrency())
	if math.IsInf(o.RequestRate, 1) && o.RampUpStrategy == "" && !o.Timed() {
		return n
	}
	return min(n, spareConnections)
}
