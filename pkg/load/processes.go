package load

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/load/sender"
	"github.com/profllm/profllm/pkg/load/workers"
)

// Shared says which client processes share a load: several on this machine, or one of those
// that another program starts on several.
type Shared struct {
	Processes  int    `name:"processes" ours:"" default:"1" help:"Client processes on this machine that share the load."`
	Rendezvous string `name:"rendezvous" ours:"" placeholder:"FILE" help:"File on a shared filesystem through which client processes on several machines find each other. All have the same flags, but --rank."`
	Rank       int    `name:"rank" ours:"" default:"0" help:"With --rendezvous: number of this process, from 0; default: SLURM_PROCID. Process 0 writes the result."`
	Ranks      int    `name:"ranks" ours:"" default:"0" help:"With --rendezvous: number of processes; default: SLURM_NTASKS."`
}

// count returns how many processes share the load.
func (p *Shared) count() int { return max(p.Processes, p.Ranks, 1) }

// InSlurm fills in what Slurm says of a process that it started.
func (p *Shared) InSlurm(env func(string) string) error {
	if p.Rendezvous == "" || p.Ranks != 0 {
		return nil
	}
	for name, to := range map[string]*int{"SLURM_PROCID": &p.Rank, "SLURM_NTASKS": &p.Ranks} {
		n, err := strconv.Atoi(env(name))
		if err != nil {
			return fmt.Errorf("--rendezvous needs --rank and --ranks outside of a job step of Slurm: %s is %q", name,
				env(name))
		}
		*to = n
	}
	return nil
}

func (o *Options) checkProcesses() error {
	n := o.count()
	switch {
	case o.Processes < 1:
		return fmt.Errorf("--processes is %d, must be 1 or more", o.Processes)
	case o.Rendezvous == "" && (o.Rank != 0 || o.Ranks != 0):
		return errors.New("--rank and --ranks need --rendezvous")
	case o.Rendezvous != "" && o.Processes > 1:
		return errors.New("--processes and --rendezvous exclude each other: start as many processes as there are ranks")
	case o.Rendezvous != "" && o.Rank == 0 && o.Ranks == 0: // [Shared.InSlurm] says which
	case o.Rank != 0 && o.Ranks == 0:
		return errors.New("--rank needs --ranks")
	case o.Rendezvous != "" && (o.Rank < 0 || o.Rank >= o.Ranks):
		return fmt.Errorf("--rank is %d, must be 0 to %d, which is --ranks less 1", o.Rank, o.Ranks-1)
	case n > o.concurrency() || n > o.NumPrompts && o.NumPrompts > 0:
		return fmt.Errorf("%d client processes for %d requests, %d at a time: each needs one", n, o.NumPrompts,
			o.concurrency())
	}
	return nil
}

// digest tells loads apart by everything that all processes of a load have in common.
func (o *Options) digest() string { return o.Digest("processes", "rendezvous", "rank", "ranks") }

// Digest is a hash of the values of all flags but those named. Equal options have equal digests in
// programs of one version.
func (o *Options) Digest(without ...string) string {
	h := sha256.New()
	v := reflect.ValueOf(o).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := f.Tag.Get("name"); name != "" && !slices.Contains(without, name) {
			fmt.Fprintf(h, "%s %v\n", name, reflect.Indirect(v.FieldByIndex(f.Index)))
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// keeping are the flags that say where and how results are kept, and what is written of them.
var keeping = []string{"result-dir", "result-filename", "save-result", "append-result", "save-detailed",
	"save-requests", "disable-tqdm", "percentile-metrics", "metric-percentiles", "label", "metadata", "plot-timeline",
	"plot-dataset-stats"}

// SentDigest is a [Options.Digest] of what is sent: results may be kept in another way.
func (o *Options) SentDigest(without ...string) string {
	return o.Digest(slices.Concat(keeping, without)...)
}

// CommandDigest is the same of the command line of any client with such flags.
func CommandDigest(words []string, without ...string) string {
	h := sha256.New()
	dropped := false // the last flag, and so its values
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		if !isFlag && dropped && !strings.HasPrefix(word, "-") {
			continue
		}
		name, _, whole := strings.Cut(strings.ReplaceAll(name, "_", "-"), "=")
		drop := isFlag && (slices.Contains(keeping, name) || slices.Contains(without, name))
		if isFlag {
			dropped = drop && !whole
		}
		if !drop {
			fmt.Fprintf(h, "%q\n", word)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// sampled is how many bodies of a load are part of its digest.
const sampled = 64

// digest tells requests apart that were made from the same options, but from other files or by
// another tokenizer: by the sizes of all, and the bodies of some.
func (t traffic) digest() string {
	h := sha256.New()
	n := t.heads()
	for i := range n {
		prompt, answer, bounded := t.Tokens(i)
		fmt.Fprintln(h, prompt, answer, bounded)
	}
	var body []byte
	for i := 0; i < n; i += max(n/sampled, 1) {
		body = t.Body(body[:0], i)
		h.Write(body)
	}
	return fmt.Sprintf("%d %x", n, h.Sum(nil))
}

// A crew is the other client processes of a load.
type crew struct {
	*workers.Coordinator
	lost     context.CancelCauseFunc
	file     string // the rendezvous file, once it is written
	folder   string // its own, if any
	children sync.WaitGroup
	end      context.CancelFunc // of the children
}

// call starts or awaits the other processes that share the load; nil if there are none. lost ends
// the load if one of them is lost.
func (o *Options) call(
	ctx context.Context, prefix string, clock func() int64, lost context.CancelCauseFunc, stderr io.Writer,
) (*crew, error) {
	n := o.count()
	if n == 1 {
		return nil, nil
	}
	c := &crew{lost: lost, end: func() {}}
	file, local := o.Rendezvous, o.Rendezvous == ""
	var err error
	if local {
		if c.folder, err = os.MkdirTemp("", "profllm-load-"); err != nil {
			return nil, fmt.Errorf("make a folder for client processes to meet in: %w", err)
		}
		file = filepath.Join(c.folder, "rendezvous.json")
	}
	if c.Coordinator, err = workers.Meet(file, n, local, o.digest(), prefix, clock); err == nil {
		c.file = file
	}
	if err == nil && local {
		ctx, c.end = context.WithCancel(ctx)
		err = c.start(ctx, o.Again, file, n, stderr)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// start starts the other processes on this machine.
func (c *crew) start(
	ctx context.Context, again func(context.Context, ...string) *exec.Cmd, file string, n int, stderr io.Writer,
) error {
	for k := 1; k < n; k++ {
		cmd := again(ctx, "--processes", "1", "--rendezvous", file, "--rank", strconv.Itoa(k), "--ranks",
			strconv.Itoa(n))
		cmd.Stderr = stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it sends what it has measured
		cmd.WaitDelay = childLimit
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start client process %d of %d: %w", k, n, err)
		}
		c.children.Go(func() {
			if err := cmd.Wait(); err != nil {
				c.lost(fmt.Errorf("client process %d of %d: %w", k, n, err))
			}
		})
	}
	return nil
}

// childLimit is how long an interrupted process may take to end.
const childLimit = 40 * time.Second

// close ends the other processes, and waits for those on this machine.
func (c *crew) close() {
	if c == nil {
		return
	}
	if c.Coordinator != nil {
		c.Coordinator.Close()
	}
	c.end()
	c.children.Wait()
	if c.file != "" {
		os.Remove(c.file) // nobody is to find it; if it stays, so does a secret that opens nothing
	}
	if c.folder != "" {
		os.Remove(c.folder)
	}
}

// work is the part of a process that shares the load of another.
func (o *Options) work(ctx context.Context, snd sender.Sender, now func() time.Time) error {
	w, err := workers.Join(ctx, o.Rendezvous, o.Rank, o.Ranks, o.digest())
	if err != nil {
		return err
	}
	api := newServer(o)
	model, err := api.model(ctx, o)
	if err != nil {
		w.Fail(err)
		return err
	}
	body, err := newBodies(ctx, o, model, api, io.Discard) // the first process says what there is to say
	if err != nil {
		w.Fail(err)
		return err
	}
	origin := now()
	r := runner{o: o, model: model, traffic: traffic{body, w.Word},
		clock: func() int64 { return int64(now().Sub(origin)) }}
	load, arrivals, _ := r.mainLoad()
	for i, a := range arrivals {
		load.Outcomes[i].Due = int64(a)
	}
	workers.Take(load, o.Rank, o.Ranks)
	if err := w.Work(ctx, snd, load, r.traffic.digest()); err != nil {
		return fmt.Errorf("client process %d: %w", o.Rank, err)
	}
	return nil
}
