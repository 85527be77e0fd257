package serving

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// Config holds the keys of [cmd_args] that every engine has. An engine embeds it.
type Config struct {
	DockerImageURL string `toml:"docker_image_url"` // Image: host#org/name:tag, or a path to a .sqsh file.
	// Base of the client-facing port; default 8300. Prefill is 100 above, decode 200.
	Port int    `toml:"port"`
	Host string `toml:"host"` // Address the servers bind; default 0.0.0.0.
	// Address the clients use; default the serving head node.
	BenchHost string `toml:"bench_host"`
	// Readiness path of the server, or of the proxy before prefill and decode (CloudAI's legacy
	// rule).
	Healthcheck      *string `toml:"healthcheck"`
	ServeHealthcheck *string `toml:"serve_healthcheck"` // Readiness path of the servers; default /health.
	// Version, or its beginning, that every server must report: 0.11 (profllm); another version
	// makes the result invalid. Options of vLLM and of its load client are checked for that release.
	EngineVersion string `toml:"engine_version"`
	// Options that go to the engine, to vLLM's load client or to AIPerf without a check of their names
	// and values, such as "x, y" (profllm): those of a release or a plugin that profllm does not know.
	UncheckedOptions string `toml:"unchecked_options"`
	ServeWaitSeconds *int   `toml:"serve_wait_seconds"` // Time to become ready, each role; default 300.
	// Time between two looks at whether a server is ready, s, from 0.1 to 60 (profllm); default 0.2.
	ServePollSeconds *float64      `toml:"serve_poll_seconds"`
	PrefillArgs      *source.Table `toml:"prefill"` // Present: disaggregated serving; the prefill role.
	// The decode role, or the arguments of the single server.
	DecodeArgs *source.Table `toml:"decode"`
}

// Defaults of CloudAI's serving workloads.
const (
	defaultPort = 8300
	defaultHost = "0.0.0.0"
	defaultWait = 300 * time.Second
	longestWait = 30 * 24 * 3600 // s, far above what any server needs
)

// stride is between the ports of the proxy, of prefill and of decode.
const stride = 100

// Engine is what the tests of one engine have of their own.
type Engine struct {
	Server  string            // the command of its servers, for messages
	HostIP  string            // the variable that tells a server its own address
	Keys    []string          // of a role: no options of the engine, besides those that every role has
	Planned map[string]string // options that the plan sets, with underscores → what to do instead
	// Known are options of its servers, with underscores: one near to them is misspelt.
	Known   func() []string
	Foreign map[string]string // options of other engines, with underscores → the name here, "" if there is none
	// Names of the options that say how many GPUs an instance needs, with
	// underscores; a role counts with the first that it has.
	TP, PP, DP []string
	Attention  string // the flag with which DP shares the ranks of TP, if there is one
}

// Test is what a serving test of any engine says.
type Test struct {
	*Config
	Wait            time.Duration // for each role to become ready
	Prefill, Decode Role
	Notes           []string
	served          string // what the servers call the model, "" for its own name
	engine          *Engine
	args            *source.Table
	written         *source.Table // the whole test
}

// Read fills in the defaults of cfg, decodes the roles, and complains of what no
// engine could serve. needImage is false where steps run without a container.
func Read(t scenario.Test, cfg *Config, e *Engine, needImage bool, c *source.Complaints) Test {
	cfg.Port, cfg.Host = cmp.Or(cfg.Port, defaultPort), cmp.Or(cfg.Host, defaultHost)
	s := Test{Config: cfg, Wait: defaultWait, engine: e, args: t.CmdArgs, written: t.Table}
	if cfg.ServeWaitSeconds != nil {
		s.Wait = time.Duration(*cfg.ServeWaitSeconds) * time.Second
	}
	s.Prefill = e.role(Prefill, cfg.PrefillArgs, c)
	s.Decode = e.role(Decode, cfg.DecodeArgs, c)
	s.extra(t, c)
	for _, r := range s.Roles() {
		s.misspelt(r, c)
		s.Notes = append(s.Notes, r.Options.UnquotedNotes(r.Kind)...)
	}
	s.served = s.servedName(c)
	s.check(needImage, c)
	return s
}

// servedName is what requests have to call the model: what the servers were told to call it; "" if they were not.
func (s *Test) servedName(c *source.Complaints) (name string) {
	const key = "served_model_name"
	for _, r := range s.Roles() {
		v := r.Option(key)
		own := ""
		if v != nil {
			own, _ = v.Word()
		}
		if r != s.Roles()[0] && own != name {
			pos := r.Options.PosOf(key)
			if v != nil {
				pos = v.Pos
			}
			c.Add(source.Errorf(pos, "prefill and decode call the model differently, so no request reaches both").
				Hintf("set %s of both roles to one name, or of neither", key))
		}
		name = own
	}
	return name
}

// Disaggregated says that prefill and decode have servers of their own.
func (s *Test) Disaggregated() bool { return s.PrefillArgs != nil }

// Roles are those that serve.
func (s *Test) Roles() []*Role {
	if s.Disaggregated() {
		return []*Role{&s.Prefill, &s.Decode}
	}
	return []*Role{&s.Decode}
}

// Every reports whether something is so of every role that serves.
func (s *Test) Every(is func(*Role) bool) bool {
	return !slices.ContainsFunc(s.Roles(), func(r *Role) bool { return !is(r) })
}

// poll is the time between two looks at whether a role is ready; 0: the job's own.
func (s *Test) poll() plan.Seconds {
	if s.ServePollSeconds == nil {
		return 0
	}
	return plan.Seconds(*s.ServePollSeconds * float64(time.Second))
}

// health is the readiness path of the servers.
func (s *Test) health() string {
	switch {
	case s.ServeHealthcheck != nil:
		return *s.ServeHealthcheck
	case s.Healthcheck != nil && !s.Disaggregated():
		return *s.Healthcheck
	}
	return "/health"
}

// beginsWithNumber reports whether a version does, but for a leading v.
func beginsWithNumber(version string) bool {
	plain := strings.TrimPrefix(version, "v")
	return plain != "" && '0' <= plain[0] && plain[0] <= '9'
}

// extra adds extra_cmd_args to every server's options.
func (s *Test) extra(t scenario.Test, c *source.Complaints) {
	extra := t.ExtraCmdArgs
	if len(extra.Keys()) == 0 {
		return
	}
	for _, key := range extra.Keys() {
		v := extra.Get(key)
		if _, ok := v.Text(); !ok {
			c.Add(source.Errorf(v.Pos, "extra_cmd_args.%s must be a string, not %s", key, v.Describe()).
				Hintf("write %s = \"%v\"", key, v.Plain()))
			continue
		}
		name := underscores(strings.TrimLeft(key, "-"))
		for _, r := range s.Roles() {
			if r.Option(name) != nil || slices.Contains(r.own(), name) {
				where := ""
				if set := r.Option(name); set != nil {
					where = " (" + set.Pos.String() + ")"
				}
				c.Add(source.Errorf(v.Pos, "extra_cmd_args.%s: %s has that key too%s", key, r.Kind, where).
					Hintf("set it once, in [cmd_args.%s] or here", r.Kind))
				continue
			}
			r.Options.Set(name, v)
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("%s: extra_cmd_args are passed to every `%s`; CloudAI ignores them for this workload", t.Pos, s.engine.Server))
}

func (s *Test) check(needImage bool, c *source.Complaints) {
	if s.DockerImageURL == "" && needImage {
		c.Add(source.Errorf(s.args.Pos, "cmd_args.docker_image_url is required").
			Hintf("name the image, or set launcher = \"bare\" to run without a container"))
	}
	if most := 65535 - 2*stride - plan.Slots; s.Port < 1024 || s.Port > most {
		c.Addf(s.args.PosOf("port"),
			"cmd_args.port is %d, must be 1024 to %d: profllm adds the slot of the job, and %d for the roles", s.Port,
			most, 2*stride)
	}
	if strings.ContainsAny(s.BenchHost, "/ ") {
		c.Add(source.Errorf(s.args.PosOf("bench_host"),
			"cmd_args.bench_host %q must be a host name, without scheme or path", s.BenchHost).
			Hintf("write bench_host = \"node1\""))
	}
	if s.EngineVersion != "" && !beginsWithNumber(s.EngineVersion) {
		c.Add(source.Errorf(s.args.PosOf("engine_version"),
			"cmd_args.engine_version %q is no version: it must begin with a number", s.EngineVersion).
			Hintf("write the version that the servers report, or its beginning: engine_version = \"0.11\""))
	}
	CheckPath(s.args, "healthcheck", s.Healthcheck, c)
	CheckPath(s.args, "serve_healthcheck", s.ServeHealthcheck, c)
	if n := s.ServeWaitSeconds; n != nil && (*n < 1 || *n > longestWait) {
		c.Addf(s.args.PosOf("serve_wait_seconds"), "serve_wait_seconds is %d, must be 1 to %d", *n, longestWait)
	}
	if every := s.ServePollSeconds; every != nil && !(*every >= 0.1 && *every <= 60) {
		c.Addf(s.args.PosOf("serve_poll_seconds"), "serve_poll_seconds is %g, must be 0.1 to 60", *every)
	}
	p, d := &s.Prefill, &s.Decode
	if s.Disaggregated() && (p.IDs == nil) != (d.IDs == nil) {
		has, lacks := p, d
		if has.IDs == nil {
			has, lacks = lacks, has
		}
		c.Add(source.Errorf(has.table.PosOf("gpu_ids"), "%s.gpu_ids is set, but %s.gpu_ids is not", has.Kind,
			lacks.Kind).Hintf("set both or neither"))
	}
	if !s.Disaggregated() && d.replicas > 1 {
		c.Add(source.Errorf(d.table.PosOf("replicas"),
			"decode.replicas is %d, but there is no [cmd_args.prefill]: without it, there is one server", d.replicas).
			Hintf("add [cmd_args.prefill], or set data_parallel_size for several engines behind one server"))
	}
	p.check(c)
	d.check(c)
}

// CheckPath complains of a readiness path that does not begin with a slash.
func CheckPath(args *source.Table, key string, path *string, c *source.Complaints) {
	if path != nil && !strings.HasPrefix(*path, "/") {
		c.Add(source.Errorf(args.PosOf(key), "%s %q must begin with a slash", key, *path).
			Hintf("write %s = \"/%s\"", key, *path))
	}
}
