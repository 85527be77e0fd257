// Package kube is the Scheduler that runs a plan on Kubernetes, through kubectl alone. A run is what
// its manifest says: a Job of the clients and the objects of its service, each labelled with the run
// id. The Job owns the other objects, so that nothing outlives it.
//
// Every call of kubectl names kubeconfig, context and namespace, and has a time limit. A cluster
// that does not answer makes a state unknown, never "gone".
package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Kube implements run.Scheduler and run.Finder for the runs that it was told of; New makes it.
type Kube struct {
	// Judge is called once a run is fetched, before another command can see its end; nil: nothing is.
	Judge func(dir string, st run.State) error

	env   []string
	now   func() time.Time
	limit time.Duration // of one call of kubectl
	pause time.Duration // between two looks at what is being deleted

	mu        sync.Mutex
	byName    map[string]known // by the name of the plan's job
	byID      map[string]known
	offsets   map[Place]time.Duration
	unread    map[string]error // why Know could not tell of a job
	cancelled map[string]bool  // ids of jobs that this process has cancelled
}

// known is a run that may be asked about.
type known struct {
	dir   string
	runID string
	at    Place
	plan  *plan.Plan
}

// New makes a scheduler that runs kubectl in an environment.
func New(environ []string, now func() time.Time) *Kube {
	// kuberc could change what a command of kubectl means.
	env := append(slices.Clone(environ), "KUBERC=off", "KUBECTL_KUBERC=false")
	return &Kube{env: env, now: now, limit: callLimit, pause: time.Second, byName: map[string]known{},
		byID: map[string]known{}, unread: map[string]error{}, offsets: map[Place]time.Duration{},
		cancelled: map[string]bool{}}
}

// cluster is run.ClusterFile. Later commands ask there, whatever the current context is then.
type cluster struct {
	Schema string `json:"schema"` // profllm.cluster/1
	RunID  string `json:"run_id"`
	Place
	Server string `json:"server,omitempty"` // its address, for people
}

// Know tells of a run, so that its job can be asked about: by its name, and by its ids.
func (k *Kube) Know(dir string, p *plan.Plan, ids ...string) error {
	if p.Kubernetes == nil {
		return fmt.Errorf("%s: the run is not planned for Kubernetes", dir)
	}
	of := known{dir: dir, runID: p.RunID, plan: p,
		at: Place{p.Kubernetes.Kubeconfig, p.Kubernetes.Context, p.Kubernetes.Namespace}}
	var c cluster
	switch err := run.ReadJSON(filepath.Join(dir, run.ClusterFile), &c); {
	case err == nil && c.RunID == p.RunID:
		of.at = c.Place
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w\n\thint: restore the file; without it, the context and namespace of the plan are used", err)
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, id := range ids {
			k.unread[id] = err
		}
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byName[p.Job.Name] = of
	for _, id := range ids {
		if id != "" {
			k.byID[id] = of
		}
	}
	return nil
}

// Knows reports whether Know was told of the run whose job has a name.
func (k *Kube) Knows(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.byName[name]
	return ok
}

// ofJob is the run of a job; an error is why nobody knows it.
func (k *Kube) ofJob(id string) (known, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if of, ok := k.byID[id]; ok {
		return of, nil
	}
	if err := k.unread[id]; err != nil {
		return known{}, err
	}
	return known{}, fmt.Errorf("nobody told where job %s lives", id)
}

// uidLength is how much of a Job's uid is in its id: enough to tell it from a later Job of its name.
const uidLength = 8

// idOf is the id of a Job. Neither a namespace nor a uid has a dot in it.
func idOf(o *object) string {
	m := o.Metadata
	return run.KubePrefix + m.Namespace + "." + m.Name + "." + m.UID[:min(uidLength, len(m.UID))]
}

// parseID is the other direction of idOf.
func parseID(id string) (namespace, name, uid string, err error) {
	rest, ok := strings.CutPrefix(id, run.KubePrefix)
	namespace, rest, first := strings.Cut(rest, ".")
	i := strings.LastIndexByte(rest, '.')
	if !ok || !first || i < 1 || namespace == "" || i == len(rest)-1 {
		return "", "", "", fmt.Errorf("%q is not the id of a Job of Kubernetes", id)
	}
	return namespace, rest[:i], rest[i+1:], nil
}

// settle decides where a run goes, and keeps it with the run: the current context may be another
// one tomorrow.
func (k *Kube) settle(ctx context.Context, dir string, p *plan.Plan) (Place, error) {
	var c cluster
	file := filepath.Join(dir, run.ClusterFile)
	switch err := run.ReadJSON(file, &c); {
	case err == nil && c.RunID == p.RunID:
		return c.Place, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Place{}, err
	}
	at := Place{p.Kubernetes.Kubeconfig, p.Kubernetes.Context, p.Kubernetes.Namespace}
	if at.Namespace == "" {
		return Place{}, errors.New("the plan names no namespace")
	}
	var err error
	if at.Kubeconfig, err = k.kubeconfig(at.Kubeconfig); err != nil {
		return Place{}, err
	}
	if at.Context == "" {
		out, err := k.kubectl(ctx, Place{Kubeconfig: at.Kubeconfig}, nil, "config", "current-context")
		if err != nil {
			return Place{}, fmt.Errorf("%s\n\thint: name the context in the system file, or kubectl config use-context NAME",
				asError(err).said())
		}
		at.Context = strings.TrimSpace(string(out))
	}
	c = cluster{Schema: "profllm.cluster/1", RunID: p.RunID, Place: at}
	var view struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	out, err := k.kubectl(ctx, at, nil, "config", "view", "--minify", "--output=json")
	if err != nil {
		return Place{}, fmt.Errorf("context %q: %s", at.Context, asError(err).said())
	}
	if json.Unmarshal(out, &view) == nil && len(view.Clusters) > 0 {
		c.Server = view.Clusters[0].Cluster.Server
	}
	return at, run.WriteJSON(file, c)
}

// kubeconfig is the list of files that kubectl reads here and now, by absolute paths: a later command
// may have another working directory, $KUBECONFIG or $HOME. "" leaves the choice to kubectl.
func (k *Kube) kubeconfig(given string) (string, error) {
	if given == "" {
		given = k.lookup("KUBECONFIG")
	}
	if home := k.lookup("HOME"); given == "" && home != "" {
		file := filepath.Join(home, ".kube", "config")
		if _, err := os.Stat(file); err == nil {
			given = file
		}
	}
	var files []string
	there := false
	for _, file := range filepath.SplitList(given) {
		if file == "" {
			continue
		}
		file, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		files = append(files, file)
		_, err = os.Stat(file)
		there = there || err == nil
	}
	if len(files) > 0 && !there {
		return "", fmt.Errorf("there is no kubeconfig %s\n\thint: name another one with kubeconfig in the system file, or with KUBECONFIG",
			strings.Join(files, ", or "))
	}
	return strings.Join(files, string(filepath.ListSeparator)), nil
}

// lookup is the value of a variable of the caller's environment.
func (k *Kube) lookup(name string) string {
	for _, kv := range slices.Backward(k.env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
