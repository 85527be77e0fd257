package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// resetLimit bounds the answer of an engine to a reset of its prefix cache,
// which waits for requests that still run.
const resetLimit = 60 * time.Second

// BeginLoad prepares one of several loads: it reads the engines' counters for the end of
// the previous load, empties the prefix cache if the plan says so, and reads the counters
// again for the start of this load.
func (j *Job) BeginLoad(ctx context.Context, name string) error {
	p, _, err := j.load()
	if err != nil {
		return err
	}
	l := p.Load(name)
	if l == nil {
		return fmt.Errorf("the plan has no load %q", name)
	}
	if len(p.Loads) > 1 {
		j.scrapeLast(ctx, After, nil)
	}
	if l.Cache == plan.CacheReset {
		if err := j.resetCaches(ctx, name); err != nil {
			return err
		}
	} else if l.Cache != "" {
		return fmt.Errorf("load %q: unknown value: cache = %q", name, l.Cache)
	}
	if err := j.startTraces(ctx, p, name); err != nil {
		return err
	}
	j.scrape(ctx, j.loadDir(l), Before, nil)
	return j.event(Event{Event: LoadBegins, Load: name})
}

// EndRepeats notes that a load, and those after it in its series, do not run.
func (j *Job) EndRepeats(load, why string, over RepeatsOver) error {
	return j.event(Event{Event: RepeatsEnd, Load: load, Text: why, Repeats: &over})
}

// SeriesEnd finds the end of a series of repeats, nil if the series has not ended.
func SeriesEnd(events []Event, group string) *Event {
	for i := range events {
		if e := &events[i]; e.Event == RepeatsEnd && e.Repeats != nil && e.Repeats.Group == group {
			return e
		}
	}
	return nil
}

// resetCaches empties the prefix cache of every engine. One that cannot would
// make the numbers of this load those of a warm cache.
func (j *Job) resetCaches(ctx context.Context, load string) error {
	p, place, err := j.load()
	if err != nil {
		return err
	}
	client := client(resetLimit)
	var errs []error
	for i := range p.Roles {
		role := &p.Roles[i]
		if !role.Engine {
			continue
		}
		url, err := endpoint(p, place, role, p.CachePath)
		if err == nil {
			err = resetCache(ctx, client, url)
		}
		what := "prefix cache"
		if err == nil {
			what, err = "other caches", j.resetMore(ctx, client, p, place, role)
		}
		if err != nil {
			err = fmt.Errorf("reset the %s of %s: %w", what, role.Name, err)
			errs = append(errs, err, j.event(Event{Event: CacheKept, Role: role.Name, Load: load, Text: err.Error()}))
		}
	}
	return errors.Join(errs...)
}

// resetMore empties the further caches of one engine, those that its release has.
func (j *Job) resetMore(ctx context.Context, client *http.Client, p *plan.Plan, place *run.Placement,
	role *plan.Role) error {
	for _, path := range p.CacheMore {
		url, err := endpoint(p, place, role, path)
		if err == nil {
			err = ask(ctx, client, http.MethodPost, url, io.Discard)
		}
		if refused, ok := errors.AsType[*statusError](err); ok && refused.code == http.StatusNotFound {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resetCache asks one engine. vLLM answers 200 and "success": false while a request
// or a transfer still holds blocks (its serve/dev/cache/api_router.py).
func resetCache(ctx context.Context, client *http.Client, url string) error {
	var answer bytes.Buffer
	if err := ask(ctx, client, http.MethodPost, url, &answer); err != nil {
		return err
	}
	var reply struct{ Success *bool }
	if json.Unmarshal(answer.Bytes(), &reply) == nil && reply.Success != nil && !*reply.Success {
		return errors.New(`the engine answers "success": false: a request or a transfer still holds blocks`)
	}
	return nil
}

// loadDir is where a load's files lie.
func (j *Job) loadDir(l *plan.Load) string {
	if l.Dir == "" {
		return j.Dir
	}
	return filepath.Clean(l.Dir)
}

// scrapeLast keeps the engines' counters for the load that began last.
func (j *Job) scrapeLast(ctx context.Context, when string, want func(role string) bool) {
	p, _, err := j.load()
	if err != nil {
		return
	}
	if l := j.lastLoad(p); l != nil {
		j.scrape(ctx, j.loadDir(l), when, want)
	}
}

// lastLoad is the load that began last, nil if none did. A single load is it,
// whether or not its clients began.
func (j *Job) lastLoad(p *plan.Plan) *plan.Load {
	switch len(p.Loads) {
	case 0:
		return &plan.Load{}
	case 1:
		return &p.Loads[0]
	}
	events, err := ReadEvents(j.Dir)
	if err != nil {
		j.logf("%v", err)
	}
	for i := len(events) - 1; i >= 0; i-- {
		if l := p.Load(events[i].Load); events[i].Event == LoadBegins && l != nil {
			return l
		}
	}
	return nil
}
