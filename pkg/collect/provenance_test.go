package collect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/gpu"
	"github.com/profllm/profllm/pkg/job"
	"github.com/profllm/profllm/pkg/node"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/result/resulttest"
	"github.com/profllm/profllm/pkg/run"
)

// changePlan rewrites the plan of a recorded run.
func changePlan(t *testing.T, dir string, change func(*plan.Plan)) {
	t.Helper()
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	change(p)
	data, err := p.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, run.PlanFile), data, 0o644))
}

// What the nodes said of the servers' processes is kept once where it is the same, and
// by role and node where it is not.
//
// covers: PL-V25, PL-V28, IMG-11
func TestProvenance(t *testing.T) {
	dir := recorded(t)
	changePlan(t, dir, func(p *plan.Plan) {
		p.Image = "vllm/vllm-openai@sha256:0011"
		p.Source = plan.Source{Git: "abc-dirty", ModelRevision: "planned",
			Repositories: []plan.Checkout{{URL: "https://u:hunter22@h/r", Commit: "c1"}}}
		p.Env = append(p.Env, plan.Var{Name: "MY_API_KEY", Value: plan.Text("0123456789abcdef")})
	})
	var said bytes.Buffer
	said.WriteString("a site's prolog\nlook {\"host\":\n")
	fact := func(step, kind, name, value string) node.Ran {
		return node.Ran{Step: step, Kind: kind, Name: name, Value: value}
	}
	require.NoError(t, node.WriteRan(&said, "127.0.1.1", []node.Ran{
		fact("prefill", node.Variable, "NCCL_DEBUG", "INFO"), fact("prefill", node.Package, "vllm", "0.11.0"),
		fact("prefill", node.Package, "torch", "2.8.0"),
		fact("prefill", node.Revision, "m", "aa"), fact("prefill", node.Tokenizer, "m", "sha256:t"),
	}))
	require.NoError(t, node.WriteRan(&said, "127.0.1.2", []node.Ran{
		fact("decode", node.Variable, "NCCL_DEBUG", "WARN"), fact("decode", node.Package, "vllm", "0.11.0"),
		fact("decode", node.Package, "torch", "2.8.1"),
		fact("decode", node.Revision, "m", "aa"), fact("gone", node.Variable, "X", "Y"),
	}))
	write(t, dir, run.NodesFile, said.String())
	r := only(t, collector(t), dir, completed())
	p := r.Provenance
	require.Equal(t, []result.RoleEnv{{Role: "prefill", Vars: map[string]string{"NCCL_DEBUG": "INFO"}},
		{Role: "decode", Vars: map[string]string{"NCCL_DEBUG": "WARN"}}}, p.Environment)
	require.Equal(t, []result.Package{
		{Name: "torch", Version: "2.8.0", Role: "prefill", Node: "127.0.1.1"}, {Name: "torch", Version: "2.8.1", Role: "decode", Node: "127.0.1.2"}, {Name: "vllm", Version: "0.11.0"},
	}, p.Packages)
	require.Equal(t, "0.11.0", p.EngineInstalled)
	require.Equal(t, "sha256:0011", p.ImageDigest, "it is in the name")
	require.Equal(t, []string{"aa", "sha256:t", "abc-dirty"}, []string{p.ModelRevision, p.TokenizerDigest, p.Git},
		"what the servers have counts")
	require.Equal(t, []result.Checkout{{URL: "https://u:[redacted]@h/r", Commit: "c1"}}, p.Repositories)
	require.Equal(t, "[redacted]", r.Config.Settings["extra_env_vars.MY_API_KEY"])
	require.NotEmpty(t, r.Config.Settings["cmd_args.model"])
	require.Equal(t, result.MetricsVersion, r.MetricsVersion)
	want, err := r.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, want, p.Fingerprint)
	require.Equal(t, result.SeriesKey(r.Config.Settings, r), p.Series)
	data, err := resulttest.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(data), "hunter22")
	require.NotContains(t, string(data), "0123456789abcdef")
	again, err := resulttest.Marshal(only(t, collector(t), dir, completed()))
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
}

// The runtime's word on the image counts where no file was staged; several images of
// one run have no one digest.
//
// covers: IMG-11
func TestImageDigest(t *testing.T) {
	dir := recorded(t)
	changePlan(t, dir, func(p *plan.Plan) {
		for i := range p.Roles {
			p.Roles[i].Step.Container = true
		}
	})
	require.Empty(t, only(t, collector(t), dir, completed()).Provenance.ImageDigest)
	write(t, dir, "raw/"+job.ImageFile("prefill"), `{"id":"sha256:1","digest":"sha256:a"}`)
	write(t, dir, "raw/"+job.ImageFile("decode"), `{"id":"sha256:1","digest":"sha256:a"}`)
	require.Equal(t, "sha256:a", only(t, collector(t), dir, completed()).Provenance.ImageDigest)
	write(t, dir, "raw/"+job.ImageFile("decode"), `{"id":"sha256:2","digest":"sha256:b"}`)
	require.Empty(t, only(t, collector(t), dir, completed()).Provenance.ImageDigest)
	changePlan(t, dir, func(p *plan.Plan) { p.ImageDigest = "sha256:file" })
	require.Equal(t, "sha256:file", only(t, collector(t), dir, completed()).Provenance.ImageDigest)
}

// A run from a lock finds what was locked, or says what it found instead.
//
// covers: PL-V25
func TestLocked(t *testing.T) {
	dir := recorded(t)
	said := only(t, collector(t), dir, completed()).Provenance.EngineVersion
	lock := func(version, digest string) *result.Result {
		changePlan(t, dir, func(p *plan.Plan) {
			p.ImageDigest, p.Locked = "sha256:1", &plan.Locked{EngineVersion: version, ImageDigest: digest}
		})
		return only(t, collector(t), dir, completed())
	}
	write(t, dir, "raw/"+job.IdentityFile("prefill"),
		`{"models":[{"id":"`+servedModel(t, dir)+`"}],"version":"0.11.0"}`)
	require.Equal(t, "pass", outcome(t, lock("v0.11.0+cu128", "sha256:1"), "wrong-server"), said)
	r := lock("0.12.0", "sha256:1")
	require.Equal(t, "fail", outcome(t, r, "wrong-server"))
	require.Contains(t, r.Validity.Check("wrong-server").Detail,
		"prefill is version 0.11.0, but the lock file has 0.12.0")
	r = lock("0.11.0", "sha256:2")
	require.Equal(t, "fail", outcome(t, r, "wrong-server"))
	require.Contains(t, r.Validity.Check("wrong-server").Detail,
		"the image is sha256:1, but the lock file has sha256:2")
}

func servedModel(t *testing.T, dir string) string {
	t.Helper()
	p, err := run.ReadPlan(dir)
	require.NoError(t, err)
	return p.Config.Model
}

// What nodes have in common is said once, each node's own where they are not alike.
//
// covers: PL-V28
func TestHardware(t *testing.T) {
	dir := recorded(t)
	report := func(host, driver, kernel string, memory int64) node.Report {
		return node.Report{Host: host,
			GPUs: []gpu.Device{{Name: "H100", Driver: driver, Reader: "nvidia-smi", Total: 80e9,
				Setup: &gpu.Setup{CUDA: "12.4", PowerLimit: 700, MaxClock: 1980, Persistence: "Enabled",
					MIG: "Disabled"}}},
			Is: &node.Machine{Kernel: kernel, OS: "Ubuntu", CPU: "EPYC", CPUs: 192, NUMA: 2, Memory: memory}}
	}
	preflight(t, dir, report("n1", "570", "6.8", 1_000_100e6), report("n2", "570", "6.8", 1_000_090e6))
	r := only(t, collector(t), dir, completed())
	want := result.Hardware{GPU: "H100", GPUs: new(1), GPUMemoryGB: new(80.0), Driver: "570", GPUReader: "nvidia-smi",
		CUDA: "12.4", GPUPowerLimitW: new(700.0), GPUMaxClockMHz: new(1980.0), GPUPersistence: "Enabled",
		GPUMIG: "Disabled",
		CPU:    "EPYC", CPUs: new(192), NUMANodes: new(2), MemoryGB: new(1000.0), Kernel: "6.8", OS: "Ubuntu"}
	require.Equal(t, &want, r.System.HardwareInfo)
	require.Nil(t, r.System.Nodes)
	require.Equal(t, "pass", outcome(t, r, "mixed-hardware"))

	preflight(t, dir, report("n1", "570", "6.8", 1e12), report("n2", "580", "6.8", 1e12), node.Report{Host: "n3"})
	r = only(t, collector(t), dir, completed())
	other := want
	other.Driver = ""
	require.Equal(t, &other, r.System.HardwareInfo)
	require.Len(t, r.System.Nodes, 2)
	require.Equal(t, "580", r.System.Nodes[1].Driver)
	require.Equal(t, "fail", outcome(t, r, "mixed-hardware"))
	_, err := resulttest.Marshal(r)
	require.NoError(t, err)
}
