package collect

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/run"
)

// addIdentity names the run. version is profllm's own, for runs that it did not plan.
func addIdentity(version string) adder {
	return func(e *evidence, d *draft) {
		r, p := d.record, e.plan
		if p == nil {
			r.RunID, r.Suite = foreignID(e.dir), filepath.Base(filepath.Dir(e.dir))
			r.Provenance = &result.Provenance{Profllm: version}
			return
		}
		r.RunID, r.Suite, r.Timestamp, r.Simulated = e.load.RunID, p.Scenario+"/"+p.Test, p.Created, p.Simulated || p.SimulatedEngine
		if n := p.Speed(); n > 1 {
			r.SimulatedSpeed = n
		}
		r.Provenance = &result.Provenance{
			Profllm: p.Version, Engine: p.Workload, Simulated: p.Simulated || p.SimulatedEngine,
			Image: p.Image, ImageDigest: p.ImageDigest, ImageSource: p.ImageSource,
		}
	}
}

// addCommands adds the command lines of roles and clients.
func addCommands(e *evidence, d *draft) {
	if e.plan == nil {
		return
	}
	pr := d.record.Provenance
	for _, role := range e.plan.Roles {
		pr.Commands = append(pr.Commands, result.RoleArgv{Role: role.Name, Argv: argv(role.Step)})
	}
	for _, c := range e.load.Clients {
		pr.Commands = append(pr.Commands, result.RoleArgv{Role: c.Name, Argv: argv(c)})
	}
}

// addRepeats says which repeat of a load the record is.
func addRepeats(e *evidence, d *draft) {
	if e.plan == nil || e.load.Repeat == nil {
		return
	}
	x := e.load.Repeat
	d.record.Repeats = &result.Repeats{Group: x.Group, Index: x.Index, Of: x.Of, Series: seriesOf(e)}
}

// addEvents adds what the job warned of.
func addEvents(e *evidence, d *draft) {
	r := d.record
	for _, x := range e.events {
		switch x.Event {
		case job.CheckFailed:
			r.Warnings = append(r.Warnings, result.Warning{Kind: result.CheckFailed, Key: x.Phase, Text: x.Text})
		case job.SecretMasked:
			r.Warnings = append(r.Warnings,
				result.Warning{Kind: result.SecretInLog, File: x.File, Line: x.Line,
					Text: x.Text + "; overwritten with xxx"})
		}
	}
	for _, ph := range failedPostTests(e.sentinel) {
		r.Warnings = append(r.Warnings,
			result.Warning{Kind: result.HookFailed, Key: ph.Name, Text: fmt.Sprintf("ended with %d", ph.Code)})
	}
}

// addTimes adds when the job began, and how long it took.
func addTimes(e *evidence, d *draft) {
	if e.claim.Time.IsZero() {
		return
	}
	d.record.Timestamp = e.claim.Time
	if e.sentinel == nil {
		return
	}
	// A clock that was set back says nothing of how long it took.
	if s := e.sentinel.Time.Sub(e.claim.Time).Seconds(); s >= 0 {
		d.record.Duration = &s
	}
}

// addSlurm adds what Slurm says of the job.
func addSlurm(e *evidence, d *draft) {
	if s := e.state; s != nil && s.Source != "local" && s.Source != "" && !strings.HasPrefix(s.JobID, run.LocalPrefix) &&
		!strings.HasPrefix(s.JobID, run.KubePrefix) {
		d.record.Slurm = slurmRecord(e.plan, s)
	}
	if id := e.claim.Allocation; id != "" { // it goes on when the run is over
		d.record.Slurm = &result.Slurm{JobID: id, State: "RUNNING", NodeList: hostsOf(e.place)}
	}
}

// hostsOf are the nodes of a run, as Slurm writes them.
func hostsOf(place *run.Placement) string {
	var hosts []string
	if place != nil {
		for _, n := range place.Nodes {
			hosts = append(hosts, n.Host)
		}
	}
	return strings.Join(hosts, ",")
}

func argv(s plan.Step) []string {
	words := make([]string, 0, len(s.Env)+len(s.Argv))
	for _, v := range s.Env {
		words = append(words, v.Name+"="+v.Value.String())
	}
	for _, w := range s.Argv {
		words = append(words, w.String())
	}
	return words
}

// addConfig adds what the plan asked for.
func addConfig(e *evidence, d *draft) {
	r, p := d.record, e.plan
	r.Config.Server = map[string]any{}
	if p == nil {
		return
	}
	if len(p.Roles) > 0 {
		r.Results.GPUs = new(e.load.Expect.GPUs)
	}
	if len(p.Roles) == 0 { // the tool's arguments
		for name, args := range p.Config.Server {
			r.Config.Server[name] = args
		}
		return
	}
	r.Config.Server["model"] = p.Config.Model
	for _, role := range p.Roles {
		args, ok := p.Config.Server[role.KindName()].(map[string]any)
		if !ok || role.Replica > 0 { // instances of a kind are alike
			continue
		}
		if !e.load.Expect.Disaggregated {
			for k, v := range args {
				r.Config.Server[k] = v
			}
			continue
		}
		r.Config.Roles = append(r.Config.Roles, result.RoleConfig{Role: role.KindName(), Server: args})
	}
	b := &r.Config.Benchmark
	x := e.load.Expect
	b.Kind = e.load.Client
	positive := func(n int) *int {
		if n == 0 {
			return nil
		}
		return &n
	}
	b.NumPrompts, b.MaxConcurrency = positive(x.NumPrompts), positive(x.Concurrency)
	b.InputTokens, b.OutputTokens = positive(x.InputTokens), positive(x.OutputTokens)
	b.Goodput = faster(x.Goodput, e.plan.Speed())
	if x.IgnoreEOS {
		b.IgnoreEOS = &x.IgnoreEOS
	}
}

// addPlacement says where the roles ran.
func addPlacement(e *evidence, d *draft) {
	if e.plan == nil || e.place == nil {
		return
	}
	r := d.record
	r.Placement = &result.Placement{}
	for _, n := range e.place.Nodes {
		r.Placement.Nodes = append(r.Placement.Nodes, n.Host)
	}
	for _, role := range e.plan.Roles {
		placed := result.PlacedRole{
			Role: role.KindName(), Replica: role.Replica,
			Slice:       result.Slice{Offset: role.Nodes.Offset, Count: role.Nodes.Count},
			GPUsPerNode: len(role.GPUs), Ports: map[string]int{},
		}
		for i := role.Nodes.Offset; i < role.Nodes.End() && i < len(e.place.Nodes); i++ {
			placed.Hosts = append(placed.Hosts, e.place.Nodes[i].Host)
		}
		if e.place.Roles != nil {
			placed.Hosts = e.place.Roles[role.Name]
		}
		for name, port := range e.place.Ports {
			if name == role.Name {
				placed.Ports["http"] = port
			} else if purpose, ok := strings.CutPrefix(name, role.Name+"_"); ok {
				placed.Ports[purpose] = port
			}
		}
		r.Placement.Roles = append(r.Placement.Roles, placed)
	}
}

func slurmRecord(p *plan.Plan, s *run.State) *result.Slurm {
	out := &result.Slurm{JobID: s.JobID, State: s.Raw, ExitCode: s.ExitCode, NodeList: s.NodeList}
	if p != nil {
		out.Partition, out.Account = p.Job.Partition, p.Job.Account
	}
	if out.State == "" {
		out.State = "UNKNOWN"
	}
	stamp := func(text string) *time.Time {
		if t, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local); err == nil {
			t = t.UTC()
			return &t
		}
		return nil
	}
	out.Start, out.End = stamp(s.Start), stamp(s.End)
	if s.Elapsed > 0 {
		out.Elapsed = &s.Elapsed
	}
	return out
}

// faster are limits in ms for servers whose time runs n times faster.
func faster(limits map[string]float64, n int) map[string]float64 {
	if n == 1 || limits == nil {
		return limits
	}
	out := map[string]float64{}
	for name, ms := range limits {
		out[name] = ms / float64(n)
	}
	return out
}
