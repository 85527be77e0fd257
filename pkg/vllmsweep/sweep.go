package vllmsweep

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/experiment"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/shell"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Serve is a sweep as `vllm bench sweep serve` is told of it.
type Serve struct {
	Name     string // of the experiment
	Model    string // of commands that are not given
	ServeCmd string // "" is vllm serve MODEL
	BenchCmd string // "" is vllm bench serve --model MODEL

	ServeParams, BenchParams []Item
	Links                    []Link
	Runs                     int           // of each point
	Warmup                   int           // prompts of an unmeasured run before each point; 0: none
	Ready                    time.Duration // for a server to become ready; 0: the default

	Explore *Explore // nil: the points are those of BenchParams

	// What vLLM's command has no flag for.
	Client    string // profllm or vllm; "" is vllm
	Image     string // of the container; "" for none
	Nodes     int    // of each server; 0: one
	TimeLimit string // of a server with all of its loads; "": none
	AfterLoad string // shell text that runs after each load, in place of emptying the caches
	Simulate  bool   // the engine
}

// A Link keeps the pairs of points whose parameters have the same value.
type Link struct{ Serve, Bench string }

// ParseLinks reads a=b,c=d.
func ParseLinks(text string) ([]Link, error) {
	var links []Link
	if text == "" {
		return nil, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		a, b, ok := strings.Cut(pair, "=")
		if a, b = strings.TrimSpace(a), strings.TrimSpace(b); !ok || a == "" || b == "" || strings.Contains(b, "=") {
			return nil, fmt.Errorf("--link-vars: %q is not of the form SERVE_KEY=BENCH_KEY", pair)
		}
		links = append(links, Link{a, b})
	}
	return links, nil
}

// holds reports whether both points have the linked parameters, with equal values.
func (l Link) holds(serve, bench Item) bool {
	a, b := serve.Params.Get(l.Serve), bench.Params.Get(l.Bench)
	return a != nil && b != nil && alike(a, b)
}

// alike compares as Python's == does: 1 is 1.0, and true is 1.
func alike(a, b *source.Value) bool {
	x, one := number(a)
	y, two := number(b)
	if one && two {
		return x == y
	}
	return one == two && pythonText(a) == pythonText(b) && a.Kind() == b.Kind()
}

func number(v *source.Value) (float64, bool) {
	switch x := v.Any.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// A Sweep is the points of a sweep by the servers that they share.
type Sweep struct {
	Serve
	Servers []*Server
	Dropped int // combinations whose links do not hold

	startup      bool // of starts of the engine, which have no server
	serve, bench command
	unset        []string // switches of the load client that a point takes away
}

// A Server is one start of a server, with the loads on it.
type Server struct {
	Item
	ID     string // of its test
	Points []*Point

	args   *source.Table // cmd_args
	lists  []string      // keys below cmd_args.decode whose lists are values
	length int64         // max_model_len; 0: not known
}

// A Point is one load on a server.
type Point struct {
	Item
	Server *Server
	ID     string // of its phase
	Folder string // of its results, below that of the experiment; "" for that itself

	Base string // the folder without the level of an exploration

	bench *source.Table // what the point sets
	unset []string      // switches of the base command that it takes away
}

// Sweep plans the points. Errors name the parameter files, or the flag with a command.
func (in Serve) Sweep() (*Sweep, error) {
	in.ServeCmd = cmp.Or(in.ServeCmd, "vllm serve "+shell.Quote(in.Model))
	in.BenchCmd = cmp.Or(in.BenchCmd, "vllm bench serve --model "+shell.Quote(in.Model))
	s := &Sweep{Serve: in}
	var c source.Complaints
	var err error
	s.serve, err = parse("--serve-cmd", in.ServeCmd, []string{"vllm", "serve"}, arguments.Serve)
	c.Add(err)
	s.bench, err = parse("--bench-cmd", in.BenchCmd, []string{"vllm", "bench", "serve"}, arguments.BenchServe)
	c.Add(err)
	if c.Err() != nil {
		return nil, c.Err()
	}
	servers := names{}
	for _, item := range in.ServeParams {
		server, err := s.server(item, servers)
		c.Add(err)
		loads := names{}
		for _, item := range in.BenchParams {
			points, err := s.points(server, item, loads)
			c.Add(err)
			c.Add(s.pair(server, item, points))
		}
		if len(server.Points) > 0 {
			s.Servers = append(s.Servers, server)
		}
	}
	if c.Err() == nil && len(s.Servers) == 0 {
		return nil, source.Errorf(source.Pos{File: "--link-vars"},
			"no pair of points has the same values: nothing would run")
	}
	c.Add(s.folders())
	return s, c.Err()
}

// pair puts loads of an entry on a server, unless a link keeps them apart.
func (s *Sweep) pair(server *Server, item Item, points []*Point) error {
	for _, l := range s.Links {
		if !l.holds(server.Item, item) {
			s.Dropped++
			return nil
		}
	}
	var c source.Complaints
	for _, p := range points {
		p.Server = server
		server.Points = append(server.Points, p)
		c.Add(s.fits(server, p))
	}
	return c.Err()
}

// Points are those of all servers.
func (s *Sweep) Points() (list []*Point) {
	for _, server := range s.Servers {
		list = append(list, server.Points...)
	}
	return list
}

// folders refuses points whose results would overwrite each other, or have no place.
func (s *Sweep) folders() error {
	var c source.Complaints
	seen := map[string]*Point{}
	for _, p := range s.Points() {
		pos := p.Pos
		if len(p.Folder) > len(p.Server.Name) && p.Item.empty() {
			pos = p.Server.Pos
		}
		switch first := seen[p.Folder]; {
		case len(p.Folder) > 250:
			c.Add(source.Errorf(pos, "the folder of this point would have a name of %d bytes", len(p.Folder)).
				Hintf("give the points names: %q: \"…\"", nameKey))
		case strings.ContainsRune(p.Folder, 0) || p.Folder == ".":
			c.Addf(pos, "the point %q cannot name a folder", p.Folder)
		case first != nil:
			c.Addf(pos, "the results of this point and of %s would be in the same folder %s", first.Pos, p.Folder)
		}
		seen[p.Folder] = p
	}
	return c.Err()
}

// names are ids that are taken.
type names map[string]bool

// Runs of characters that an id of a test or a phase cannot have.
var unnamed = lazyregexp.New(`[^A-Za-z0-9_.]+`)

// longestID leaves room in the paths of runs.
const longestID = 60

// ofRun are the ends of ids that name a run of a point, or its warm-up.
var ofRun = lazyregexp.New(`\.(run[0-9]+|warmup)$`)

// id is a name as one that definitions take, unique among those given and among their runs.
func (n names) id(name, otherwise string) string {
	id := strings.Trim(unnamed.ReplaceAllString(name, "-"), "-.")
	if id = cmp.Or(id, otherwise); len(id) > longestID {
		id = strings.TrimRight(id[:longestID], "-.")
	}
	if at := ofRun.FindStringIndex(id); at != nil {
		id = id[:at[0]] + "-" + id[at[0]+1:]
	}
	for i, base := 2, id; n[id]; i++ {
		id = fmt.Sprintf("%s-%d", base, i)
	}
	n[id] = true
	return id
}

// server is a start of the server with what a point sets.
func (s *Sweep) server(item Item, taken names) (*Server, error) {
	var c source.Complaints
	set, unset, err := s.serve.set(item)
	c.Add(err)
	decode := source.Merge(s.serve.options, set).Without(unset...)
	args := source.NewTable(item.Pos)
	put := func(key string, v *source.Value) {
		if v != nil {
			args.Set(key, v)
		}
	}
	model := s.serve.model
	if v := decode.Get("model"); v != nil {
		model = v
	}
	put("model", model)
	port := decode.Get("port")
	if port == nil {
		port = &source.Value{Pos: item.Pos, Any: int64(defaultPort)}
	}
	put("port", port)
	put("host", decode.Get("host"))
	if s.Image != "" {
		put("docker_image_url", &source.Value{Pos: item.Pos, Any: s.Image})
	}
	if s.Ready > 0 {
		put("serve_wait_seconds", &source.Value{Pos: item.Pos, Any: int64(s.Ready / time.Second)})
	}
	c.Add(s.reaches(model, port, decode.Get("served_model_name")))
	out := &Server{Item: item, ID: taken.id(item.Name, "server"), args: args}
	decode = decode.Without("model", "port", "host")
	for _, key := range decode.Keys() {
		if _, ok := decode.Get(key).Any.([]*source.Value); ok {
			out.lists = append(out.lists, key)
		}
	}
	put("decode", &source.Value{Pos: item.Pos, Any: decode})
	out.length = whole(decode.Get("max_model_len"))
	return out, c.Err()
}

const defaultPort = 8000 // of vllm serve and vllm bench serve

// reaches refuses a client that would not find the server.
func (s *Sweep) reaches(model, port, served *source.Value) error {
	var c source.Complaints
	at := s.bench.options
	pos := s.bench.Pos
	asked := &source.Value{Any: int64(defaultPort)}
	host, _ := at.Get("host").Text()
	if v := at.Get("port"); v != nil {
		asked = v
	}
	if base, ok := at.Get("base_url").Text(); ok {
		u, err := url.Parse(base)
		if err != nil {
			return source.Errorf(pos, "--base-url %s: %v", base, err)
		}
		number, err := strconv.ParseInt(cmp.Or(u.Port(), "80"), 10, 64)
		if err != nil {
			return source.Errorf(pos, "--base-url %s: the port is no number", base)
		}
		host, asked = u.Hostname(), &source.Value{Pos: pos, Any: number}
	}
	if local := []string{"", "localhost", "127.0.0.1", "0.0.0.0", "::1"}; !slices.Contains(local, host) {
		c.Add(source.Errorf(pos, "the client asks %s, which is not the host of the server that is started", host).
			Hintf("remove --host or --base-url: profllm tells the client where the server is"))
	}
	if !alike(asked, port) {
		c.Add(source.Errorf(pos, "the client asks port %s, and the server listens on %s", pythonText(asked),
			pythonText(port)).Hintf("remove --port or --base-url: profllm tells the client where the server is"))
	}
	want, ok := at.Get("model").Text()
	have, _ := model.Text()
	if list := texts(served); ok && model != nil && want != have && !slices.Contains(list, want) {
		c.Add(source.Errorf(pos, "the client asks for the model %s, but the server has %s", want, have).
			Hintf("name the same model, or add --served-model-name %s to the server", want))
	}
	return c.Err()
}

// whole is a whole number, 0 if the value is none.
func whole(v *source.Value) int64 {
	if v == nil {
		return 0
	}
	n, _ := v.Int()
	return n
}

// texts are the words of a value.
func texts(v *source.Value) (list []string) {
	if v == nil {
		return nil
	}
	if several, ok := v.Any.([]*source.Value); ok {
		for _, one := range several {
			list = append(list, texts(one)...)
		}
		return list
	}
	return []string{pythonText(v)}
}

// fixed are options of the client that profllm sets, or that `vllm bench sweep serve` sets over
// what the command says.
var fixed = []string{"model", "host", "port", "base_url", "save_result", "result_dir", "result_filename",
	"append_result", "percentile_metrics"}

// points are the loads of an entry: one, or those that an exploration makes of it.
func (s *Sweep) points(server *Server, item Item, taken names) ([]*Point, error) {
	if s.Explore != nil {
		return s.explored(server, item, taken)
	}
	p, err := s.point(item, taken.id(item.Name, "load"))
	p.Folder = Folder(server.Item, "BENCH", item)
	p.Base = p.Folder
	return []*Point{p}, err
}

// point is a load with what an entry sets.
func (s *Sweep) point(item Item, id string) (*Point, error) {
	var c source.Complaints
	set, unset, err := s.bench.set(item)
	c.Add(err)
	s.unset = append(s.unset, unset...)
	for _, key := range set.Keys() {
		if slices.Contains(fixed, key) {
			c.Add(source.Errorf(set.PosOf(key), "%s cannot be swept: profllm sets it", key).Hintf("remove it"))
		}
	}
	return &Point{Item: item, ID: id, bench: set, unset: unset}, c.Err()
}

// base is the options of the client that all points share, with vLLM's defaults where those of
// scenarios differ.
func (s *Sweep) base() *source.Table {
	t := s.bench.options.Without(fixed...).Without(s.unset...)
	pos := s.bench.Pos
	for _, d := range experiment.ClientDefaults {
		if !t.Has(d.Key) {
			t.Set(d.Key, &source.Value{Pos: pos, Any: d.Value})
		}
	}
	if model, ok := s.bench.options.Get("model").Text(); ok && s.servedName(model) && !t.Has("served_model_name") {
		t.Set("served_model_name", &source.Value{Pos: pos, Any: model})
	}
	return t
}

// args are the options of a load over those of the base.
func (s *Sweep) args(p *Point) *source.Table {
	t := source.NewTable(p.Pos)
	for _, key := range s.unset {
		if v := s.bench.options.Get(key); v != nil && !slices.Contains(p.unset, key) {
			t.Set(key, v)
		}
	}
	return source.Merge(t, p.bench)
}

// servedName reports whether the client asks for a model by a name that the server gives it.
func (s *Sweep) servedName(model string) bool {
	have, ok := s.serve.model.Text()
	return ok && have != model && slices.Contains(texts(s.serve.options.Get("served_model_name")), model)
}

const defaultPrompts = 1000 // of vllm bench serve

// fits refuses a load whose requests are longer than the server takes.
func (s *Sweep) fits(server *Server, p *Point) error {
	t := source.Merge(s.base(), s.args(p))
	if data, ok := t.Get("dataset_name").Text(); ok && data != "random" || server.length <= 0 {
		return nil
	}
	get := func(keys ...string) (n int64) {
		for _, key := range keys {
			n = max(n, whole(t.Get(key)))
		}
		return n
	}
	in, out := get("random_input_len", "input_len")+get("random_prefix_len"), get("random_output_len", "output_len")
	if in+out <= server.length {
		return nil
	}
	pos := p.Pos
	if p.Item.empty() {
		pos = cmp.Or(server.Pos, s.bench.Pos)
	}
	return source.Errorf(pos, "requests of %d + %d tokens are longer than the server takes (max_model_len %d%s)", in,
		out, server.length, inPoint(server)).Hintf("lower random_input_len or random_output_len, or raise max_model_len")
}

// inPoint names the server of several.
func inPoint(server *Server) string {
	if server.empty() {
		return ""
	}
	return " of " + server.Name
}
