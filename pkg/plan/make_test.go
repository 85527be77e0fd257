package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

const site = `name = "s"
scheduler = "slurm"
output_path = "/out"
install_path = "install"
default_partition = "gpu"
`

// service is a workload that answers itself, and remembers what it was told.
type service struct {
	plan.Service
	told *plan.Cluster
	err  error
}

func (s service) Serve(c plan.Cluster) (plan.Service, error) {
	*s.told = c
	return s.Service, s.err
}

// client measures by printing what it is given.
type client struct{}

func (client) Command(t plan.Target) (plan.Step, error) {
	return plan.Step{Name: "bench", Nodes: t.Nodes, Container: true, Log: "logs/bench-%t.log",
		Argv: []plan.Word{plan.Text("measure"), plan.Concat(t.Host, ":", t.Port), plan.Text(t.Model),
			plan.Text(t.Dir)}}, nil
}

// box is a launcher that shows what it was given.
type box struct{}

func (box) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	s.Srun = append(s.Srun, plan.Text("--image="+c.Image), plan.Text("--mounts="+strings.Join(c.Mounts, ",")))
	return s, nil
}

// role is an engine on the first nodes.
func role(name string, nodes plan.Slice, gpus ...int) plan.Role {
	return plan.Role{Name: name, Nodes: nodes, GPUs: gpus, Engine: true,
		Health: plan.Endpoint{Port: "http", Path: "/health"},
		Step: plan.Step{Name: name, Nodes: nodes, Container: true, Argv: plan.Texts("serve"),
			Log: "logs/" + name + "-%t.log"}}
}

// input is a test on the site, with one server on node 0.
func input(t *testing.T, siteMore, testMore string) plan.Input {
	t.Helper()
	sys, err := config.Parse("site.toml", []byte(site+siteMore))
	require.NoError(t, err)
	s, err := scenario.Load(scenario.File{Name: "s.toml",
		Data: []byte("name = \"s\"\n[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\n" + testMore)}, nil,
		scenario.HookFiles{})
	require.NoError(t, err)
	return plan.Input{
		System: sys, Scenario: "s", Test: s.Tests[0], Limit: s.Limit(s.Tests[0]),
		Workload: service{told: new(plan.Cluster), Service: plan.Service{
			Roles: []plan.Role{role("serve", plan.Slice{Count: 1}, 0)},
			Ports: []plan.Port{{Name: "http", Base: 8300, Step: 1, Count: 1, Role: "serve"}},
			Image: "./image.sqsh", Model: "m", Endpoint: plan.Endpoint{Port: "http"}, EndpointRole: "serve",
			ClientNodes: plan.Slice{Count: 1},
		}},
		Loads:    []plan.LoadInput{{RunID: "exp_1", Dir: "/out/s/a/0", Clients: []plan.Client{client{}}}},
		Launcher: box{}, LauncherName: "box",
		RunID: "exp_1", Version: "v0", Created: time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600)),
		Dir: "/out/s/a/0", Binary: "/bin/profllm", WorkDir: "/home/u",
	}
}

func serving(in plan.Input, ports []plan.Port, roles ...plan.Role) plan.Input {
	w := in.Workload.(service)
	w.Roles = roles
	if ports != nil {
		w.Ports = ports
	}
	in.Workload = w
	return in
}

func TestMake(t *testing.T) {
	in := input(t, "gpus_per_node = 4\n", "time_limit = \"30m\"\n")
	p, err := plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, plan.Cluster{Nodes: 1, GPUsPerNode: 4, Dir: in.Dir, RunID: in.RunID}, *in.Workload.(service).told)
	require.Equal(t, 1, p.Loads[0].Expect.GPUs)
	require.Equal(t, "2026-03-04T04:06:07Z", p.Created.Format(time.RFC3339), "UTC")
	require.Equal(t, "/home/u/image.sqsh", p.Image, "a relative path is no image name")
	require.Equal(t, "measure ${addr:serve}:${port:http} m /out/s/a/0/raw",
		p.Loads[0].Clients[0].Argv[0].String()+" "+p.Loads[0].Clients[0].Argv[1].String()+" "+
			p.Loads[0].Clients[0].Argv[2].String()+" "+p.Loads[0].Clients[0].Argv[3].String())
	require.Equal(t, plan.Job{Name: "a.exp_1", Comment: "profllm:exp_1", Nodes: 1, Partition: "gpu", GPUsPerNode: 4,
		TimeLimit: plan.Seconds(30 * time.Minute), Grace: plan.Seconds(90 * time.Second)}, p.Job)
	data, err := p.Encode()
	require.NoError(t, err)
	back, err := plan.Decode(data)
	require.NoError(t, err)
	again, err := back.Encode()
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
}

func TestMakeIsAFunction(t *testing.T) {
	var first string
	for i := range 20 {
		in := input(t, "[global_env_vars]\nB = \"1\"\nA = \"2\"\n", "[Tests.extra_env_vars]\nD = \"3\"\nC = \"4\"\n")
		in.Loads[0].Benchmark = map[string]any{"z": 1, "y": 2, "x": map[string]any{"b": 1, "a": 2}}
		p, err := plan.Make(in)
		require.NoError(t, err)
		data, err := p.Encode()
		require.NoError(t, err)
		if i == 0 {
			first = string(data)
		}
		require.Equal(t, first, string(data))
	}
}

// covers: CD-11, CD-45
func TestMakeRefuses(t *testing.T) {
	one, both := plan.Slice{Count: 1}, plan.Slice{Count: 2}
	sized := func(r plan.Role, tp, pp, dp int) plan.Role { r.TP, r.PP, r.DP = tp, pp, dp; return r }
	port := func(name string, base int) plan.Port {
		return plan.Port{Name: name, Base: base, Step: 1, Count: 1, Role: "serve"}
	}
	for _, c := range []struct {
		name  string
		nodes int
		ports []plan.Port
		roles []plan.Role
		want  string // "": planned
	}{
		{"fits", 1, nil, []plan.Role{sized(role("serve", one, 0, 1, 2, 3), 2, 2, 1)}, ""},
		{"GPU out of range", 1, nil, []plan.Role{role("serve", one, 3, 4)}, `CUDA_VISIBLE_DEVICES names GPU 4, but a node has 4 GPUs (0-3)`},
		{"TP above the GPUs", 1, nil, []plan.Role{sized(role("serve", one, 0, 1), 4, 1, 1)},
			`role "serve" needs 4 GPUs (TP 4 x PP 1 x DP 1), but has 2 (1 node with 2 GPUs)`},
		{"TP x PP x DP above the GPUs", 2, nil, []plan.Role{sized(role("serve", both, 0, 1, 2, 3), 3, 2, 2)},
			`role "serve" needs 12 GPUs (TP 3 x PP 2 x DP 2), but has 8 (2 nodes with 4 GPUs each)`},
		{"as many GPUs as needed, over nodes", 2, nil, []plan.Role{sized(role("serve", both, 0, 1, 2, 3), 4, 2, 1)}, ""},
		{"no GPU", 1, nil, []plan.Role{role("serve", one)}, `role "serve" needs 1 GPU, but has 0 (1 node with 0 GPUs)`},
		{"one GPU, two roles", 1, nil, []plan.Role{role("prefill", one, 0, 1), role("decode", one, 1, 2)}, `roles "prefill" and "decode" both use GPU 1 of node 0`},
		{"the same GPU of other nodes", 2, nil, []plan.Role{role("prefill", one, 0), role("decode", plan.Slice{Offset: 1, Count: 1}, 0)}, ""},
		{"overlap on the second node", 2, nil, []plan.Role{role("prefill", both, 0), role("decode", plan.Slice{Offset: 1, Count: 1}, 0)}, `both use GPU 0 of node 1`},
		{"slice beyond the job", 1, nil, []plan.Role{role("serve", plan.Slice{Offset: 1, Count: 2}, 0)}, `role "serve" needs nodes 1-2, but the job has 1 node`},
		{"empty slice", 1, nil, []plan.Role{role("serve", plan.Slice{}, 0)}, `the job has 1`},
		{"negative slice", 1, nil, []plan.Role{role("serve", plan.Slice{Offset: -1, Count: 1}, 0)}, `role "serve" needs nodes -1, but the job has 1 node`},
		{"one port, two names", 1, []plan.Port{port("http", 8300), port("ray", 8300)}, []plan.Role{role("serve", one, 0)},
			`none of the 100 port slots is usable: ports "http" and "ray" are both 8300`},
		{"every slot in Ray's range", 1, []plan.Port{port("http", 12000)}, []plan.Role{onRay(role("serve", one, 0))},
			`none of the 100 port slots is usable: port "http" is 12000, in the range 10002-19999 of Ray's workers, which run on the nodes of "serve"`},
		{"some slots in Ray's range", 1, []plan.Port{port("http", 9990)}, []plan.Role{onRay(role("serve", one, 0))}, ""},
		{"Ray's range without Ray", 1, []plan.Port{port("http", 12000)}, []plan.Role{role("serve", one, 0)}, ""},
		{"privileged", 1, []plan.Port{port("http", 80)}, []plan.Role{role("serve", one, 0)}, `port "http" is 80, outside 1024-65535`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := serving(input(t, "gpus_per_node = 4\n", fmt.Sprintf("num_nodes = %d\n", c.nodes)), c.ports,
				c.roles...)
			in.Loads = nil
			p, err := plan.Make(in)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Nil(t, p)
			require.ErrorContains(t, err, c.want)
			at := "s.toml:2:3: " // of the test, for what no key of it says
			if strings.Contains(c.want, "the job has") {
				at = "s.toml:5:1: " // of num_nodes
			}
			require.ErrorContains(t, err, at)
		})
	}
}

func TestSizesPointAtTheirKeys(t *testing.T) {
	one := plan.Slice{Offset: 0, Count: 1}
	big := role("serve", one, 0, 1)
	big.TP, big.PP = 4, 2
	big.Sizes = []plan.Sized{{Key: "decode.tp", Value: 4, Pos: source.Pos{File: "s.toml", Line: 8, Col: 3}},
		{Key: "decode.pp", Value: 2, Pos: source.Pos{File: "s.toml", Line: 9, Col: 3}}}
	named := role("serve", one, 0, 9)
	named.IDs = plan.Sized{Key: "decode.gpu_ids", Pos: source.Pos{File: "s.toml", Line: 7, Col: 3}}
	for want, c := range map[string]struct {
		role       plan.Role
		site, test string
	}{
		"s.toml:8:3: role \"serve\" needs 8 GPUs (tp 4 x pp 2), but has 2 (1 node with 2 GPUs)\n\thint: write tp = 1 or less, or give the role more GPUs or nodes": {
			big, "gpus_per_node = 4\n", ""},
		"s.toml:8:3: role \"serve\" needs 8 GPUs (tp 4 x pp 2), but has 2 (1 node with 2 GPUs)\n\thint: set gpus_per_node in the system file (site.toml)": {
			big, "", ""},
		"s.toml:7:3: decode.gpu_ids names GPU 9, but a node has 4 GPUs (0-3)\n\thint: name GPUs from 0 to 3, or correct gpus_per_node in the system file (site.toml)": {
			named, "gpus_per_node = 4\n", ""},
		"s.toml:6:1: CUDA_VISIBLE_DEVICES names GPU 9, but a node has 4 GPUs (0-3)\n\thint: name GPUs from 0 to 3, or correct gpus_per_node in the system file (site.toml)": {
			role("serve", one, 9), "gpus_per_node = 4\n", "[Tests.extra_env_vars]\nCUDA_VISIBLE_DEVICES = \"9\"\n"},
	} {
		in := serving(input(t, c.site, c.test),
			[]plan.Port{{Name: "http", Base: 9000, Step: 1, Count: 1, Role: "serve"}}, c.role)
		in.Loads = nil
		_, err := plan.Make(in)
		require.EqualError(t, err, want)
	}
}

func TestEveryComplaintAtOnce(t *testing.T) {
	in := input(t, "gpus_per_node = 4\n[global_env_vars]\nCUDA_VISIBLE_DEVICES = \"x\"\nN = 1979-05-27\n",
		"exclude_nodes = [\"n[1-\"]\nnodes = [\"main:g:2\", \"b[\"]\n[Tests.extra_env_vars]\n\"A B\" = \"\"\nL = [\"x\"]\n")
	w := in.Workload.(service)
	w.err = fmt.Errorf("workload")
	in.Workload = w
	_, err := plan.Make(in)
	var lines []string
	for _, line := range strings.Split(err.Error(), "\n") {
		if !strings.HasPrefix(line, "\t") {
			lines = append(lines, line)
		}
	}
	require.Len(t, lines, 7, "%v", err)
	for i, want := range []string{
		`s.toml:5:18: exclude_nodes: host list "n[1-"`,
		`s.toml:6:10: nodes: "main:g:2": the system file has no partition "main"`, `s.toml:6:22: nodes: host list "b["`,
		`s.toml:8:1: "A B" cannot name an environment variable`, `s.toml:9:1: L is a list`,
		`site.toml:8:1: CUDA_VISIBLE_DEVICES: "x" is not a GPU id`,
		`site.toml:9:1: N must be a string, not the date 1979-05-27`,
	} {
		require.Contains(t, lines[i], want)
	}
	require.Equal(t, plan.Cluster{}, *w.told, "no slices of no nodes")
}

func TestNodes(t *testing.T) {
	for _, c := range []struct {
		name, test    string
		nodes         int
		list, exclude []string
		err           string
	}{
		{name: "default", nodes: 1},
		{name: "count", test: `num_nodes = 3`, nodes: 3},
		{name: "count as a string", test: `num_nodes = "3"`, nodes: 3},
		{name: "list beats count", test: "num_nodes = 7\nnodes = [\"n[08-10]\"]", nodes: 3, list: []string{"n08", "n09", "n10"}},
		{name: "order kept, duplicates not", test: `nodes = ["n10,n2", "n2", "n1"]`, nodes: 3, list: []string{"n10", "n2", "n1"}},
		{name: "list less excluded", test: "nodes = [\"n[1-4]\"]\nexclude_nodes = [\"n[2-3],n9\"]", nodes: 2, list: []string{"n1", "n4"}},
		{name: "exclude without a list", test: "num_nodes = 2\nexclude_nodes = [\"n[2-3]\", \"n9\"]", nodes: 2, exclude: []string{"n[2-3]", "n9"}},
		{name: "nothing left", test: "nodes = [\"n[1-2]\"]\nexclude_nodes = [\"n1\", \"n2\"]", err: `nodes ["n[1-2]"] has no node left after exclude_nodes ["n1" "n2"]`},
		{name: "sweep", test: `num_nodes = [1, 2]`, err: "num_nodes is a list, but one number is needed"},
		{name: "float", test: `num_nodes = 8.0`, err: "num_nodes must be a number of nodes, 1 to 65536, not the float 8.0\n\thint: write num_nodes = 8, without a point"},
		{name: "none", test: `num_nodes = 0`, err: "num_nodes must be a number of nodes, 1 to 65536, not 0"},
		{name: "text", test: `num_nodes = "two"`, err: "num_nodes must be a number of nodes, 1 to 65536, not \"two\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := plan.Make(input(t, "", c.test))
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Equal(t, 1, strings.Count(err.Error(), "s.toml:"), "one mistake, one complaint: %v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.nodes, p.Job.Nodes)
			require.Equal(t, c.list, p.Job.NodeList)
			require.Equal(t, c.exclude, p.Job.Exclude)
		})
	}
}

// covers: SIG-2
func TestGrace(t *testing.T) {
	for limit, want := range map[string]time.Duration{"": 0, "1m": 0, "599s": 0, "10m": 90 * time.Second,
		"2d": 90 * time.Second} {
		text := ""
		if limit != "" {
			text = fmt.Sprintf("time_limit = %q", limit)
		}
		p, err := plan.Make(input(t, "", text))
		require.NoError(t, err)
		require.Equal(t, want, time.Duration(p.Job.Grace), limit)
	}
}

// The job is found again by its name, so the name must survive squeue and sacct.
//
// covers: PL-S22
func TestJobName(t *testing.T) {
	in := input(t, "", `name = "vLLM, 8 GPUs|x\n#é.1"`)
	p, err := plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, "vLLM--8-GPUs-x---.1.exp_1", p.Job.Name)
	require.Equal(t, "vLLM, 8 GPUs|x\n#é.1", p.Name, "the record keeps it")
}

func TestSlurmOptions(t *testing.T) {
	p, err := plan.Make(input(t, `gpus_per_node = 8
supports_gpu_directives = false
account = "a"
qos = "q"
reservation = "r"
constraint = "c"
distribution = "block"
ntasks_per_node = 8
extra_sbatch_args = ["--exclusive=user"]
extra_srun_args = "--cpus-per-gpu=8 '--x=a b'"
`, `extra_srun_args = "--y"
[Tests.slurm]
partition = "p2"
account = "a2"
exclusive = true
sbatch_args = ["--mail-type=END"]
srun_args = ["--z"]
`))
	require.NoError(t, err)
	p.Job.Name, p.Job.Comment = "", ""
	require.Equal(t, plan.Job{Nodes: 1, Partition: "p2", Account: "a2", QOS: "q", Reservation: "r", Constraint: "c",
		Distribution: "block", NTasksPerNode: 8,
		Exclusive: true, SbatchArgs: []string{"--exclusive=user", "--mail-type=END"},
		SrunArgs: []string{"--cpus-per-gpu=8", "--x=a b", "--y", "--z"}}, p.Job)
}

func TestMounts(t *testing.T) {
	p, err := plan.Make(input(t, "hf_home_path = \"hf\"\n[global_env_vars]\nNCCL_TOPO_FILE = \"topo.xml\"\n",
		`extra_container_mounts = ["/a:/b", "$PWD:/c", "${PWD}/d/e:/f:ro", "./x:/y", "$X:/g"]
git_repos = [{ url = "https://h/vllm.git", commit = "f/x", mount_as = "/vllm" }, { url = "https://h/b", commit = "1" }]
proxy_script_repo = { url = "https://h/p.git", commit = "2" }
`))
	require.NoError(t, err)
	want := []string{
		"/out/s/a/0:/cloudai_run_results", "/home/u/install:/cloudai_install", "/out/s/a/0:/out/s/a/0", "/a:/b",
		"/home/u:/c", "/home/u/d/e:/f:ro", "/home/u/x:/y", "$X:/g",
		"/home/u/install/vllm__f_x:/vllm", "/home/u/install/b__1:/git/b__1", "/home/u/install/p__2:/git/p__2",
		"/home/u/hf:/root/.cache/huggingface", "/home/u/hf:/home/u/hf", "/home/u/topo.xml:/home/u/topo.xml",
	}
	require.Equal(t, want, p.Mounts)
	for _, s := range []plan.Step{p.Roles[0].Step, p.Loads[0].Clients[0]} {
		require.Equal(t, plan.Texts("--image=/home/u/image.sqsh", "--mounts="+strings.Join(want, ",")), s.Srun)
	}
	require.Len(t, p.Notes, 1)
	require.Contains(t, p.Notes[0], `the mount "$X:/g" is passed unchanged`)

	p, err = plan.Make(input(t, "", ""))
	require.NoError(t, err)
	const hf = "/home/u/install/huggingface"
	require.Equal(t, []string{hf + ":/root/.cache/huggingface", hf + ":" + hf}, p.Mounts[len(p.Mounts)-2:])
}

// Where models are looked for is said once, for nodes and containers, unless a
// definition says it; and submission makes the folders that it mounts.
func TestModelCache(t *testing.T) {
	const site = "hf_home_path = \"/hf\"\n"
	for name, c := range map[string]struct {
		launcher, site, env, want string
		folders                   []string
	}{
		"container":             {"", "", "", "/home/u/install/huggingface", []string{"/home/u/install", "/home/u/install/huggingface"}},
		"container, site":       {"", site, "", "/hf", []string{"/home/u/install", "/hf"}},
		"container, test's own": {"", site, "HF_HOME = \"/models\"", "", []string{"/home/u/install", "/hf"}},
		"container, hub's own":  {"", site, "HF_HUB_CACHE = \"/models\"", "", []string{"/home/u/install", "/hf"}},
		"bare":                  {config.Bare, "", "", "", nil},
		"bare, site":            {config.Bare, site, "", "/hf", nil},
	} {
		t.Run(name, func(t *testing.T) {
			env := c.env
			if env != "" {
				env = "[Tests.extra_env_vars]\n" + env + "\n"
			}
			in := input(t, c.site, env)
			if c.launcher != "" {
				in.LauncherName, in.Launcher = c.launcher, bareLauncher{}
			}
			p, err := plan.Make(in)
			require.NoError(t, err)
			require.Equal(t, c.want, p.ModelCache)
			require.Equal(t, c.folders, p.Folders)
			shell := func(name string) string { return map[string]string{"HOME": "/home/u", "HF_HOME": "/shell"}[name] }
			cache := p.StepEnv(shell)("HF_HOME")
			switch {
			case c.want != "":
				require.Equal(t, c.want, cache)
				require.Equal(t, c.want+"/hub", p.StepEnv(shell)("HF_HUB_CACHE"))
				require.Equal(t, c.want+"/hub/x", p.OnHost(c.want+"/hub/x"))
			case c.launcher == config.Bare:
				require.Equal(t, "/shell", cache)
				require.Equal(t, "/anywhere", p.OnHost("/anywhere"))
			default:
				require.NotEqual(t, "/shell", cache, "the shell's folder is not in the container")
				require.Empty(t, p.OnHost("/models/hub"), "the image's")
			}
		})
	}
}

type bareLauncher struct{}

func (bareLauncher) Wrap(s plan.Step, _ plan.Container) (plan.Step, error) {
	s.Container = false
	return s, nil
}

func TestLauncherComplaints(t *testing.T) {
	in := input(t, "", "")
	in.Launcher = broken{}
	_, err := plan.Make(in)
	require.ErrorContains(t, err, `s.toml:2:3: launcher box: step serve: no "serve" today`)
	require.ErrorContains(t, err, `s.toml:2:3: launcher box: step bench: no "bench" today`)

	in = input(t, "", "")
	in.Launcher = launcherFunc(func(s plan.Step, _ plan.Container) (plan.Step, error) {
		return s, errors.New("no such image")
	})
	_, err = plan.Make(in)
	require.EqualError(t, err, "s.toml:2:3: launcher box: steps serve and bench: no such image", "once for all steps")
}

type broken struct{}

func (broken) Wrap(s plan.Step, _ plan.Container) (plan.Step, error) {
	return s, fmt.Errorf("no %q today", s.Name)
}

func TestDir(t *testing.T) {
	p, err := plan.Make(input(t, "", ""))
	require.NoError(t, err)
	require.Equal(t, path.Join(p.Dir, "raw"), p.Loads[0].Clients[0].Argv[3].String(),
		"clients write below the run directory")
	data, err := json.Marshal(p.Job)
	require.NoError(t, err)
	require.NotContains(t, string(data), "time_limit_s", "no limit, no field")
}

// onRay has Ray run on the nodes of a role.
func onRay(r plan.Role) plan.Role {
	r.Ray = true
	return r
}

// What profllm mounts itself has a path that every runtime's mounts can hold; without a
// container any path will do.
func TestPathsThatCannotBeMounted(t *testing.T) {
	for name, change := range map[string]func(*plan.Input){
		"output_path":  func(in *plan.Input) { in.Dir = "/out:2/s/a/0"; in.Loads[0].Dir = in.Dir },
		"install_path": func(in *plan.Input) { in.System.InstallPath = "/home/a,b" },
		"hf_home_path": func(in *plan.Input) { in.System.HFHomePath = "hf:cache" },
	} {
		in := input(t, "", "")
		change(&in)
		_, err := plan.Make(in)
		require.ErrorContains(t, err, name+": ")
		require.ErrorContains(t, err, "a colon or a comma would split the mount")
		in.LauncherName = "bare"
		_, err = plan.Make(in)
		require.NoError(t, err, name)
	}
}

// open is a launcher whose containers see the job's whole environment.
type open struct{}

func (open) Exposes() bool { return true }

func (open) Wrap(s plan.Step, c plan.Container) (plan.Step, error) {
	s.Srun = append(s.Srun, plan.Text("--names="+strings.Join(c.Env, ",")))
	return s, nil
}

// A container that sees the job's environment gets values of several lines by the step
// itself, and none of the submitting shell's paths.
func TestExposed(t *testing.T) {
	in := input(t, "[global_env_vars]\nSITE = \"1\"\n", `extra_container_mounts = ["/a b:/c"]
[Tests.extra_env_vars]
ONE = "x"
TWO = "a\nb"
SAID = { shell = "$(date)" }
`)
	in.Launcher = open{}
	p, err := plan.Make(in)
	require.NoError(t, err)
	for _, s := range []plan.Step{p.Roles[0].Step, p.Loads[0].Clients[0]} {
		names, _ := s.Srun[len(s.Srun)-1].Literal()
		list := strings.Split(strings.TrimPrefix(names, "--names="), ",")
		require.Contains(t, list, "SITE")
		require.Contains(t, list, "ONE")
		require.Contains(t, list, "SAID")
		require.Contains(t, list, "HF_HOME")
		require.NotContains(t, list, "TWO", "its second line would be a variable of its own")
		require.Contains(t, s.Env, plan.Var{Name: "TWO", Value: plan.Text("a\nb")})
	}
	require.Equal(t, []string{"SAID"}, p.OneLine, "what only the job knows is looked at there")
	require.Contains(t, p.Unset, "CONDA_PREFIX")
	require.NotContains(t, p.Unset, "HF_HOME", "the plan sets it")
	require.Contains(t, strings.Join(p.Notes, "\n"), `the mount "/a b:/c" has a space or a backslash`)
}

// A launcher that was chosen for a test without an image is said once.
func TestNoImageIsNoted(t *testing.T) {
	in := input(t, "", "")
	in.NoImage = true
	p, err := plan.Make(in)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(strings.Join(p.Notes, "\n"),
		"there is no docker_image_url, so the steps run without a container"))
}
