package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/apicheck"
	"github.com/profllm/profllm/pkg/client"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/load"
	"github.com/profllm/profllm/pkg/metric"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/search"
	"github.com/profllm/profllm/pkg/search/runner"
	"github.com/profllm/profllm/pkg/sim/knobs"
	standin "github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
)

type benchSearchCmd struct {
	load.Options
	Limit        []string      `placeholder:"KEY=VALUE" help:"Limit of a metric, such as p99_ttft_ms=500; repeatable, and all hold together. Throughput must reach it, latency must not exceed it."`
	SLAParams    string        `name:"sla-params" placeholder:"FILE" help:"Read limits from a file of vLLM's bench sweep serve_sla: each of its objects is searched for, on the same probes."`
	Variable     string        `enum:"max_concurrency,request_rate" default:"max_concurrency" help:"Load that is varied: ${enum}."`
	Min          float64       `placeholder:"LOAD" help:"Lowest load; default: 1, or a tenth of the first rate."`
	Max          float64       `placeholder:"LOAD" help:"Highest load; default: 1024, or 1.5 times the rate at which a run without a rate is answered."`
	Resolution   float64       `placeholder:"LOAD" help:"Loads are multiples of this; default: 1, or about 1 % of that rate."`
	Start        float64       `placeholder:"LOAD" help:"First load; default: 8, or half of that rate."`
	Tolerance    float64       `default:"5" help:"Width at which the interval is narrow enough, in percent."`
	Confidence   float64       `default:"95" help:"Probability that the interval must have, in percent."`
	Probes       int           `default:"40" help:"Most measurements."`
	Time         time.Duration `placeholder:"TIME" help:"Begin no measurement after this time, such as 1h; default: no limit."`
	ProbeSeconds float64       `default:"30" help:"Least time of a measurement with a request rate."`
	AtLeast      float64       `placeholder:"LOAD" help:"Stop once the highest load is surely below this, which another configuration reaches."`
	Rivals       string        `placeholder:"DIR" help:"Folder with a folder for each configuration, this one's among them: stop once the highest load is surely below the best of a finished search of the same load there."`
	GPUs         *int          `name:"gpus" placeholder:"N" help:"GPUs of the configuration; with --rivals, compare only with searches of as many."`
	Client       []string      `arg:"" optional:"" help:"Another client with the flags of vllm bench serve, behind --: -- vllm bench serve --model m …; default: profllm's, with the flags above."`

	promptsSet bool // --num-prompts was given, if only its default
}

// AfterApply learns whether --num-prompts was given, since the search chooses the number else.
func (c *benchSearchCmd) AfterApply(k *kong.Context) error {
	c.promptsSet = slices.ContainsFunc(k.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == "num-prompts"
	})
	return nil
}

// Validate refuses what cannot be searched for.
func (c *benchSearchCmd) Validate() error {
	switch {
	case len(c.Limit) == 0 && c.SLAParams == "":
		return errors.New("missing flags: --limit or --sla-params, such as --limit p99_ttft_ms=500")
	case !(c.Tolerance > 0 && c.Tolerance < 100), !(c.Confidence >= 50 && c.Confidence < 100):
		return errors.New("--tolerance must be above 0 and below 100, and --confidence from 50 to below 100")
	case !(c.ProbeSeconds >= 0 && c.ProbeSeconds <= 1e6):
		return errors.New("--probe-seconds must be from 0 to 1000000")
	case c.Processes != 1 || c.Rendezvous != "":
		return errors.New("--processes and --rendezvous: give them to a client of its own: " +
			"-- profllm bench serve --processes 2")
	case c.Probes < 1:
		return errors.New("--probes must be 1 or more")
	case c.GPUs != nil && *c.GPUs < 1:
		return errors.New("--gpus must be 1 or more")
	case c.GPUs != nil && c.Rivals == "":
		return errors.New("--gpus has no effect without --rivals")
	}
	if err := runner.Check(c.Variable, c.goal()); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

func (c *benchSearchCmd) goal() search.Goal {
	return search.Goal{Span: search.Span{Min: c.Min, Max: c.Max, Step: c.Resolution}, Start: c.Start,
		Tolerance: c.Tolerance / 100, Confidence: c.Confidence / 100, Probes: c.Probes, AtLeast: c.AtLeast}
}

// Run searches for the highest load within the limits.
func (c *benchSearchCmd) Run(ctx context.Context, a *app) error {
	o, err := c.options(ctx, a)
	if err != nil {
		return fail(exitUsage, err)
	}
	doc, err := runner.Run(ctx, o)
	if errors.As(err, new(runner.Refusal)) {
		return fail(exitUsage, err)
	} else if doc == nil {
		return c.ended(ctx, err)
	}
	if table := probeTable(doc, o.Limits); err == nil {
		err = a.printTable(table)
	}
	for _, s := range doc.Answers {
		mark := ""
		if doc.Simulated {
			mark = "simulated: "
		}
		fmt.Fprintf(a.stdout, "%s%s\n", mark, s.Sentence)
	}
	none := func(s *result.Search) bool { return s.Outcome == string(search.NoEvidence) }
	if err == nil && slices.ContainsFunc(doc.Answers, none) {
		return exit(exitInvalid)
	}
	return c.ended(ctx, err)
}

func (c *benchSearchCmd) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fail(exitInterrupted, err)
	}
	return err
}

func (c *benchSearchCmd) options(ctx context.Context, a *app) (runner.Options, error) {
	o := runner.Options{
		Dir: c.ResultDir, Variable: c.Variable, ProbeSeconds: c.ProbeSeconds, Seed: c.Seed, Time: c.Time, Now: time.Now,
		Patience: 2 * time.Second,
		Goal:     c.goal(), Command: c.Client, Said: a.logf, Rivals: c.Rivals, Contest: c.contest(),
	}
	if o.Dir == "" {
		o.Dir = "search"
	}
	if len(c.Client) == 0 {
		o.Command = []string{"profllm", "bench", "serve", "--base-url", c.BaseURL, "--model", c.Model}
		o.Load = c.SentDigest(strings.ReplaceAll(c.Variable, "_", "-"))
		if c.promptsSet {
			o.Least = c.NumPrompts
		}
	}
	if a.env(job.SimulatedVar) != "" {
		var err error
		if o.Speed, err = knobs.Speed(a.env); err != nil {
			return o, err
		}
	}
	if err := c.readLimits(&o); err != nil {
		return o, err
	}
	if o.Simulated = c.simulated(ctx, a); o.Simulated {
		a.logf("%s", standin.Notice)
	}
	var metadata []string
	if o.Simulated && a.env(job.SimulatedVar) == "" { // in a job, the clients know themselves
		metadata = append(metadata, load.SimulatedMark)
	}
	o.MeasureBy(c.client(a), metadata...)
	return o, nil
}

// addressFlags say where a server is: that is no part of the load.
var addressFlags = []string{"base-url", "host", "port"}

// contest is what searches of several configurations must have in common to be compared.
func (c *benchSearchCmd) contest() runner.Contest {
	gpus := 0
	if c.GPUs != nil {
		gpus = *c.GPUs
	}
	if len(c.Client) > 0 {
		return runner.Contest{Load: load.CommandDigest(c.Client, addressFlags...), GPUs: gpus}
	}
	without := append([]string{strings.ReplaceAll(c.Variable, "_", "-")}, addressFlags...)
	return runner.Contest{Load: c.SentDigest(without...), GPUs: gpus}
}

// simulated reports whether the servers are, by the script of a job or by the server itself. A server
// that does not answer yet is taken for a real one.
func (c *benchSearchCmd) simulated(ctx context.Context, a *app) bool {
	if a.env(job.SimulatedVar) != "" {
		return true
	}
	of := c.Options
	if len(c.Client) > 0 {
		var err error
		if of, err = load.OfCommand(c.Client); err != nil {
			return false // not known flags of vLLM's client
		}
	}
	server, err := apicheck.Open(ctx, apicheck.Options{Address: of.Base(), APIKey: a.env("OPENAI_API_KEY"),
		Insecure: of.Insecure, Timeout: 10 * time.Second, Proxy: http.ProxyFromEnvironment})
	return err == nil && standin.Owns(server.Owner())
}

func (c *benchSearchCmd) readLimits(o *runner.Options) error {
	limits, err := findLimits(c.Limit)
	if err != nil {
		return err
	}
	var file []byte
	if c.SLAParams != "" {
		file, err = regular.ReadFile(c.SLAParams)
		file = bytes.TrimPrefix(file, []byte(pyjson.Mark))
		if err != nil {
			return err
		}
	}
	if o.Limits, err = runner.Sets(limits, file); err != nil {
		return fmt.Errorf("%s: %w", c.SLAParams, err)
	}
	return nil
}

// client is the client that measures each load.
func (c *benchSearchCmd) client(a *app) client.Client {
	if len(c.Client) == 0 {
		return c.ownClient(a)
	}
	other := client.Command(c.Client, client.Stop{Signal: syscall.SIGTERM, Wait: patience})
	return func(ctx context.Context, args []string, log io.Writer) error {
		if err := other(ctx, args, log); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(slices.Concat(c.Client, args)[:3], " "), err)
		}
		return nil
	}
}

// ownClient is profllm's load client in this process, with the flags of this command.
func (c *benchSearchCmd) ownClient(a *app) client.Client {
	return func(ctx context.Context, args []string, log io.Writer) error {
		o, err := c.Options.With(args)
		if err != nil {
			return err
		}
		o.AppendResult, o.DisableTqdm = false, true
		if a.env(job.SimulatedVar) != "" {
			if err := a.markSimulated(&o, log); err != nil {
				fmt.Fprintln(log, err)
			}
		}
		return a.measure(ctx, o, time.Now, log, log)
	}
}

// probeTable shows the probes of a search.
func probeTable(doc *runner.Document, sets [][]metric.Limit) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Name: "probe"}, {Name: doc.Question.Variable, Right: true},
		{Name: "requests", Right: true}, {Name: "s", Right: true}, {Name: "verdict"}}}
	var keys []string
	for _, l := range slices.Concat(sets...) {
		if !slices.Contains(keys, l.Metric.Key) {
			keys = append(keys, l.Metric.Key)
			t.Columns = append(t.Columns, terminal.Column{Name: l.Metric.Key, Right: true})
		}
	}
	t.Columns = append(t.Columns, terminal.Column{Name: "holds"})
	for i := range doc.Probes {
		p := &doc.Probes[i]
		cells := []any{strings.TrimPrefix(p.Name, "probe-"), fmt.Sprintf("%g", p.Value), strconv.Itoa(p.NumPrompts),
			fmt.Sprintf("%.1f", p.Seconds), string(p.Verdict)}
		for _, key := range keys {
			text := "-"
			if v := p.Metrics[key]; v.Number != nil {
				text = fmt.Sprintf("%.4g", *v.Number)
			}
			cells = append(cells, text)
		}
		holds := strings.Join(p.Holds, "; ")
		if p.Error != "" {
			holds = p.Error
		}
		t.Row(summary.Cells(append(cells, holds)...)...)
	}
	return t
}
