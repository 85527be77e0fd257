package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/lease"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/process"
	"github.com/profllm/profllm/pkg/run"
)

// FetchFile is what was fetched of a run.
const FetchFile = run.KubeDir + "/fetch.json"

// Fetched is FetchFile.
type Fetched struct {
	Schema string    `json:"schema"` // profllm.fetch/1
	JobID  string    `json:"job_id"`
	Time   time.Time `json:"time"`
	Logs   []string  `json:"logs"`             // below the run directory
	Files  int       `json:"files"`            // of the archive of results
	Fault  string    `json:"fault,omitempty"`  // why there are none
	Unread []string  `json:"unread,omitempty"` // logs that could not be read, and why
}

// mostLog bounds one log.
const mostLog = 200 << 20

// fetch is the fetching of what one run left.
type fetch struct {
	*Kube
	of   known
	id   string
	st   run.State
	have objects
	temp string // folder below the run directory, absolute
	done Fetched

	said  said
	lost  []string // logs of the Job that are gone, and why
	files []string // of temp, to be moved to the run directory

	unpacked []string // the files of the results, below resultsDir
}

// Fetch brings what a run whose Job has ended left in the cluster into its run directory: the logs
// of all containers, the objects and events, and the results between the markers of the Job's log.
// What the collector reads of a job follows from these; the sentinel comes last. A run that was
// fetched is left alone, also by a command that began before. Judge, if any, is called once a run is
// fetched, before another command can see its end.
//
// An error means that the cluster did not answer or the disk is full, and that it is worth another
// try. Results that are missing or damaged are no error: the run is over, and its sentinel and
// FetchFile say so.
func (k *Kube) Fetch(ctx context.Context, id string, st run.State) (fetched bool, err error) {
	of, err := k.ofJob(id)
	if err != nil {
		return false, err
	}
	ctx, release, err := k.lock(ctx, of.dir) // also if it is fetched: another command may just judge it
	if err != nil {
		if !errors.As(err, new(*lease.HeldError)) && of.fetched(id) {
			err = nil // somebody else's folder
		}
		return false, err
	}
	defer func() { _ = release() }() // else the lease ends with this process
	if of.fetched(id) {
		return false, nil
	}
	f, err := k.newFetch(of, id, st)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(f.temp)
	if err := f.objects(ctx); err != nil {
		return false, f.plain(err, of.at)
	}
	if f.job() == nil {
		return false, fmt.Errorf("%s has no Job %s any more", of.at, f.jobName())
	}
	if err := f.logs(ctx); err != nil {
		return false, err
	}
	if err := f.write(ctx); err != nil || k.Judge == nil {
		return true, err
	}
	return true, k.Judge(of.dir, st)
}

// fetched reports whether a job's end is on record.
func (of known) fetched(id string) bool {
	var end run.Sentinel
	return run.ReadJSON(filepath.Join(of.dir, run.SentinelFile), &end) == nil && end.JobID == id
}

// newFetch makes the folder of a fetch, which the caller removes.
func (k *Kube) newFetch(of known, id string, st run.State) (*fetch, error) {
	f := &fetch{Kube: k, of: of, id: id, st: st, done: Fetched{Schema: "profllm.fetch/1", JobID: id, Logs: []string{}}}
	var err error
	f.temp, err = tempDir(of.dir)
	return f, err
}

func (f *fetch) jobName() string {
	_, name, _, _ := parseID(f.id)
	return name
}

// job is the Job, nil if it is gone, or another one has its name.
func (f *fetch) job() *object { return jobOf(f.have, f.id) }

func jobOf(have objects, id string) *object {
	_, name, uid, _ := parseID(id)
	job := have.find(&object{Kind: kindJob, Metadata: metadata{Name: name}})
	if job != nil && !strings.HasPrefix(job.Metadata.UID, uid) {
		return nil
	}
	return job
}

// tempPrefix begins the names of folders in which something is fetched.
const tempPrefix = ".fetch-"

// tempDir makes a folder of this process, and removes those that killed commands of this host left.
func tempDir(dir string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	mark := tempPrefix + host + "-"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		word, found := strings.CutPrefix(e.Name(), mark)
		number, _, _ := strings.Cut(word, ".")
		if pid, err := strconv.Atoi(number); found && err == nil && pid != os.Getpid() && !process.Exists(pid) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return "", err
			}
		}
	}
	return os.MkdirTemp(dir, fmt.Sprintf("%s%d.*", mark, os.Getpid()))
}

// objects fetches the objects of the run and their events.
func (f *fetch) objects(ctx context.Context) error {
	m, err := f.of.manifest()
	if err != nil {
		return err
	}
	kinds := slices.DeleteFunc(m.kinds(), func(k string) bool { return k == resources["Secret"] })
	have, err := f.get(ctx, f.of.at, withPods(withDeployments(kinds)), byLabel(f.of.runID))
	if err != nil {
		return err
	}
	f.have = have
	byKind := map[string][]json.RawMessage{}
	mine := map[string]bool{}
	for _, o := range have {
		byKind[o.Kind] = append(byKind[o.Kind], o.raw)
		mine[o.Metadata.UID] = true
	}
	events, err := f.events(ctx, f.of.at)
	if err != nil && !asError(err).says("Forbidden") {
		return err
	}
	for _, e := range events {
		if mine[e.Object.UID] {
			byKind["Event"] = append(byKind["Event"], e.raw)
		}
	}
	for kind, items := range byKind {
		data, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", " ")
		if err != nil {
			return err
		}
		if err := f.keep(path.Join(run.KubeDir, strings.ToLower(kind)+"s.json"), data); err != nil {
			return err
		}
	}
	return nil
}

// keep writes a file that goes into the run directory.
func (f *fetch) keep(name string, data []byte) error {
	to := filepath.Join(f.temp, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	f.files = append(f.files, name)
	return os.WriteFile(to, data, 0o644)
}

// logs fetches the logs of all containers of all pods.
func (f *fetch) logs(ctx context.Context) error {
	f.said.fault = errNoArchive
	for _, c := range containersOf(f.have, f.of) {
		if c.waits {
			continue
		}
		if err := f.log(ctx, c, logName(c.step, c.rank)); err != nil {
			return err
		}
		if c.restarts == 0 {
			continue
		}
		// the log of the container before it, which may be gone
		if err := f.log(ctx, c, previous(logName(c.step, c.rank)), "--previous"); err != nil {
			return err
		}
	}
	return nil
}

// logName is the name of a log below logs/: as on Slurm, the role with its rank, or job for what
// measures.
func logName(step string, rank int) string {
	if step == run.JobStep && rank == 0 {
		return step
	}
	return fmt.Sprintf("%s-%d", step, rank)
}

// previous is the name of the log of the container before a restart.
func previous(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		return name[:i] + "_previous" + name[i:]
	}
	return name + "_previous"
}

// roleLabels are the labels by which a pod says what it is in the service.
var roleLabels = []string{"profllm.io/role", "nvidia.com/dynamo-component", "nvidia.com/dynamo-component-type"}

// roleOf is the role of a pod of the service.
func roleOf(p *object, pl *plan.Plan) string {
	word := ""
	for _, label := range roleLabels {
		v := p.Metadata.Labels[label]
		for _, r := range pl.Roles {
			if v != "" && (strings.EqualFold(v, r.Name) || strings.EqualFold(v, r.KindName())) {
				return r.Name
			}
		}
		if word == "" {
			word = strings.ToLower(v)
		}
	}
	if word == "" {
		word = "server"
	}
	return word
}

// log fetches one log. Of a client, the archive in it goes to a file beside. A log that is gone is
// noted. Any other failure to read a log of the Job may pass, so it is an error; a log of the service
// is given up if the server itself refuses it.
func (f *fetch) log(ctx context.Context, c ran, name string, more ...string) error {
	ofJob := c.client
	c.client = c.client && len(more) == 0 // the results are in the last log
	raw, err := os.Create(filepath.Join(f.temp, "raw.log"))
	if err != nil {
		return err
	}
	defer raw.Close()
	args := append([]string{"logs", c.pod.Metadata.Name, "--container=" + c.name, "--timestamps",
		fmt.Sprintf("--limit-bytes=%d", int64(mostLog))}, more...)
	if err := f.kubectlTo(ctx, f.of.at, nil, raw, args...); err != nil {
		e := asError(err)
		if !e.gone() && (ofJob || !e.refused() || e.denied()) {
			return f.plain(err, f.of.at)
		}
		why := fmt.Sprintf("%s: %s", name, oneLine(e.said()))
		f.done.Unread = append(f.done.Unread, why)
		if c.client {
			f.lost = append(f.lost, why)
		}
		return nil
	}
	if _, err := raw.Seek(0, 0); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(f.temp, "results.tgz.new"))
	if err != nil {
		return err
	}
	defer archive.Close()
	var plain bytes.Buffer
	s, err := readLog(raw, &plain, archive)
	if err != nil {
		return fmt.Errorf("log %s of pod %s: %w", c.name, c.pod.Metadata.Name, err)
	}
	file := run.LogDir + "/" + name + ".log"
	if plain.Len() > 0 {
		f.done.Logs = append(f.done.Logs, file)
		if err := f.keep(file, plain.Bytes()); err != nil {
			return err
		}
	}
	if !c.client {
		return nil
	}
	return f.merge(s, archive.Name())
}

// merge takes what a container of the Job said.
func (f *fetch) merge(s said, archive string) error {
	if f.said.began.IsZero() || !s.began.IsZero() && s.began.Before(f.said.began) {
		f.said.began = s.began
	}
	if s.ended.After(f.said.ended) {
		f.said.ended = s.ended
	}
	f.said.phases = append(f.said.phases, s.phases...)
	switch {
	case s.archive:
		f.said.archive, f.said.fault = true, nil
		return os.Rename(archive, filepath.Join(f.temp, "results.tgz"))
	case !f.said.archive && !errors.Is(s.fault, errNoArchive):
		f.said.fault = s.fault
	}
	return nil
}
