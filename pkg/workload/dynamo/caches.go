package dynamo

import (
	"bytes"
	"path"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// Names of the files that tell caches what to do, below the run's directory. The texts with their
// placeholders are in the plan.
const (
	lmcacheFile = "lmcache-config.yaml"
	hicacheFile = "hicache-config.toml"
)

// addCaches adds the files of LMCache and HiCache, and LMCache's controller.
func (w *Workload) addCaches(s *plan.Service, cl plan.Cluster) error {
	var c source.Complaints
	if t := w.cfg.LMCache; t != nil {
		text, err := w.lmcache(cl)
		c.Add(err)
		s.Files = append(s.Files, plan.File{Name: lmcacheFile, Text: plan.Text(text)})
		if strings.Contains(text, w.storage(cl, "lmcache")) {
			w.addStorage(s, cl, "lmcache")
		}
	}
	if w.ownLMCache() {
		w.addStorage(s, cl, "lmcache") // whether its file names it, only the nodes know
	}
	if w.stores() { // containers see the folders of caches at their own paths
		s.Mounts = append(s.Mounts, w.storageDir()+":"+w.storageDir())
	}
	w.addKVBM(s, cl)
	if t := w.cfg.HiCache; t != nil {
		var text bytes.Buffer
		if err := toml.NewEncoder(&text).Encode(t.Plain()); err != nil {
			c.Addf(t.Pos, "hicache: %v", err)
		}
		s.Files = append(s.Files, plan.File{Name: hicacheFile, Text: plan.Text(text.String())})
	}
	c.Add(w.addController(s, cl))
	return c.Err()
}

// defaultStorage is CloudAI's default of storage_cache_dir (its ai_dynamo.py).
const defaultStorage = "/tmp"

// storageDir is where caches have their folders on the nodes.
func (w *Workload) storageDir() string {
	if w.cfg.StorageDir == nil {
		return defaultStorage
	}
	return *w.cfg.StorageDir
}

// storage is the folder of a cache's files on a node. It is the run's own: what an earlier run left
// in it would be found, and other users could not make theirs beside it.
func (w *Workload) storage(cl plan.Cluster, cache string) string {
	return path.Join(w.storageOfRun(cl), cache)
}

func (w *Workload) storageOfRun(cl plan.Cluster) string {
	return path.Join(w.storageDir(), "profllm-"+cl.RunID)
}

// makeStorage makes a folder in the run's own, which other users see and could have made first.
const makeStorage = `mkdir -p -m 700 "$1" && [ -O "$1" ] && [ ! -L "$1" ] && mkdir -p "$1/$2" || ` +
	`{ echo "$1 is no folder of this user" >&2; exit 1; }`

// checkStorage refuses a folder that no mount could name.
func (w *Workload) checkStorage(c *source.Complaints) {
	if dir := w.storageDir(); !path.IsAbs(dir) || path.Clean(dir) == "/" || strings.ContainsAny(dir, ":,") {
		c.Add(source.Errorf(w.args.PosOf("storage_cache_dir"), "storage_cache_dir is %q, must be an absolute path "+
			"other than / without : and ,", dir).Hintf("name a folder of each node, such as %s", defaultStorage))
	}
}

// addStorage makes that folder on every node.
func (w *Workload) addStorage(s *plan.Service, cl plan.Cluster, cache string) {
	if cl.Simulated {
		return // nothing is kept there
	}
	name := cache + "_storage"
	s.Setup = append(s.Setup, plan.Step{Name: name, Nodes: cl.All(), Container: true,
		Argv: plan.Texts("sh", "-c", makeStorage, name, w.storageOfRun(cl), cache), Log: "logs/" + name + "-%t.log"})
	w.note(w.args.PosOf("storage_cache_dir"), "the run's folder below %s stays on the nodes", w.storageDir())
}

// stores reports whether a cache keeps files.
func (w *Workload) stores() bool {
	return w.hasLMCache() || w.hasKVBM()
}

const (
	lmcacheVariable = "LMCACHE_CONFIG_FILE"
	hicacheVariable = "HICACHE_CONFIG_FILE"
	cuFileVariable  = "CUFILE_ENV_PATH_JSON"
)

// cacheEnv and cacheArgs tell a worker where the files are.
func (w *Workload) cacheEnv(cl plan.Cluster) []plan.Var {
	var env []plan.Var
	file := func(name, file string) {
		env = append(env, plan.Var{Name: name, Value: plan.Text(path.Join(cl.Dir, plan.FilesDir, file))})
	}
	if w.cfg.LMCache != nil {
		file(lmcacheVariable, lmcacheFile)
	}
	if w.cfg.HiCache != nil {
		file(hicacheVariable, hicacheFile)
	}
	if w.stores() {
		file(cuFileVariable, cuFile)
	}
	return env
}

func (w *Workload) cacheArgs(cl plan.Cluster) []plan.Word {
	if w.cfg.HiCache == nil {
		return nil
	}
	return plan.Texts("--hicache-storage-backend-extra-config", "@"+path.Join(cl.Dir, plan.FilesDir, hicacheFile))
}

// checkCaches refuses caches that the backend does not have, and notes a controller that has nobody
// to control.
func (w *Workload) checkCaches(c *source.Complaints) {
	w.checkStorage(c)
	if t := w.cfg.HiCache; t != nil && w.backend.module != sglang.module {
		c.Add(source.Errorf(t.Pos, "hicache is a cache of SGLang, but the backend is %s", w.service.Backend).
			Hintf("remove the table, or set backend = \"sglang\""))
	}
	if t := w.cfg.LMCache; t != nil {
		if unknown := unknownPlaceholders(t); len(unknown) > 0 {
			c.Add(source.Errorf(t.Pos, "lmcache has unknown placeholders: %s", strings.Join(unknown, ", ")).
				Hintf("known: %s; write {{ and }} for braces", strings.Join(placeholderNames, ", ")))
		}
		w.noteUnread(t.Pos, "lmcache")
	}
	if w.ownLMCache() {
		w.noteUnread(w.env.PosOf(lmcacheVariable), lmcacheVariable)
	}
	if w.cfg.Controller != nil {
		c.Add(source.Decode(w.cfg.Controller, &w.controller))
		if !w.hasLMCache() {
			w.note(w.cfg.Controller.Pos, "lmcache_controller has no effect: without [cmd_args.lmcache] no worker knows it")
		}
	}
}

// controller is [cmd_args.lmcache_controller].
type controller struct {
	Cmd string `toml:"cmd,required"`
}

// addController adds LMCache's controller on the frontend's node. It has no readiness that profllm
// knows.
func (w *Workload) addController(s *plan.Service, cl plan.Cluster) error {
	if w.cfg.Controller == nil || !w.hasLMCache() {
		return nil
	}
	command, err := words(w.controller.Cmd, w.cfg.Controller.PosOf("cmd"))
	if err != nil {
		return err
	}
	const name = "lmcache_controller"
	s.Roles = append(s.Roles, plan.Role{Name: name, Nodes: w.front, Helper: true, Timeout: plan.Seconds(controlWait),
		Step: plan.Step{Name: name, Nodes: w.front, Container: true, Argv: cl.Helper(plan.Texts(command...)),
			Log: "logs/" + name + "-%t.log", Env: []plan.Var{{Name: "PROFLLM_ROLE", Value: plan.Text(name)}}}})
	return nil
}
