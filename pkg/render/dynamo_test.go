package render_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/cloudaitest"
	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/templates"
)

// dynamoFolder holds CloudAI's definitions of services of Dynamo.
const dynamoFolder = "experimental/ai_dynamo"

// kvTransfer is a line of a test file that says which connectors move KV blocks.
var kvTransfer = regexp.MustCompile(`(?m)^ *kv-transfer-config = .*$`)

// exporterURL is the line with the image of the exporter of GPU metrics.
var exporterURL = regexp.MustCompile(`(?m)(docker-image-url) = "[^"]*dcgm-exporter.*$`)

// corpusPlans plans one of CloudAI's scenarios on a Slurm site, without some lines of the test files.
// The launcher "" is the site's: pyxis.
func corpusPlans(t testing.TB, launcher, file string, without ...*regexp.Regexp) ([]*plan.Plan, error) {
	t.Helper()
	dir := filepath.Join(cloudaitest.Conf(t, os.Environ()), dynamoFolder)
	const site = "../../conf/slurm-pyxis.toml"
	sys, err := config.Parse(site, read(t, site))
	require.NoError(t, err)
	sys.CacheDockerImagesLocally = launcher == "enroot"
	options := options
	options.Launcher = launcher
	var tests []scenario.File
	names, err := filepath.Glob(filepath.Join(dir, "test/*.toml"))
	require.NoError(t, err)
	for _, name := range names {
		data := read(t, name)
		for _, line := range without {
			data = line.ReplaceAll(data, nil)
		}
		tests = append(tests, scenario.File{Name: filepath.Base(name), Data: data})
	}
	name := filepath.Join(dir, "test_scenario", file)
	data := read(t, name)
	if launcher == "enroot" { // an image of a step's own is not staged
		data = exporterURL.ReplaceAll(data, []byte(`$1 = "/shared/profllm/dcgm.sqsh"`))
	}
	s, err := scenario.Load(scenario.File{Name: file, Data: data}, tests, scenario.HookFiles{})
	require.NoError(t, err)
	set, err := planner.Plans(s, sys, options)
	if err != nil {
		return nil, err
	}
	return set.Plans, nil
}

// outcome is what becomes of one of CloudAI's files.
type outcome struct {
	refused string            // what is wrong with it, "" if it is planned
	tests   map[string]string // what runs in each test: the roles, and which nodes each has
	without []string          // keys without effect, as the notes name them
}

const (
	controlled = "etcd 0, nats 0, "
	vllmNotes  = "vllm.toml:58:13: lmcache_controller has no effect"
)

// dynamoOutcomes are those of the six scenarios. The two test files are what most of them build on.
var dynamoOutcomes = map[string]outcome{
	"vllm_slurm.toml": {
		tests: map[string]string{
			"test.disagg.single-node": controlled + "decode 0, prefill 1, frontend 0",
			"test.disagg.shared-node": controlled + "decode_0 0, decode_1 1, prefill_0 0, prefill_1 1, frontend 0",
			"test.disagg.multinode": controlled + "dcgm_exporter 0-3, decode_0 0, decode_1 1, prefill_0 2, prefill_1 3, " +
				"frontend 0",
		},
		without: []string{vllmNotes, "worker_initialized_regex has no effect",
			"health_check_between_phases has no effect"},
	},
	"sglang_slurm.toml": {
		tests: map[string]string{
			"test.disagg.single-node": controlled + "decode 0, prefill 1, frontend 0",
			"test.disagg.multinode":   controlled + "decode_0 0, decode_1 1, prefill_0 2, prefill_1 3, frontend 0",
		},
		without: []string{"lmcache_controller has no effect", "endpoint has no effect",
			"worker_initialized_regex has no effect"},
	},
	"vllm_lmcache.toml": {
		tests: map[string]string{
			"test.disagg.lmcache-controller": controlled + "lmcache_controller 0, decode 0, prefill 1, frontend 0",
		},
		without: []string{"worker_initialized_regex has no effect"},
	},
	"sglang_hicache.toml": {
		tests: map[string]string{
			"test.disagg.sglang-hicache": controlled + "decode 0, prefill 0, frontend 0",
		},
		without: []string{"endpoint has no effect", "worker_initialized_regex has no effect", "excludes nothing"},
	},
	// Made for Kubernetes, and the same service on Slurm.
	"vllm_k8s.toml": {
		tests:   map[string]string{"dynamo.vllm": controlled + "decode 0, prefill 1, frontend 0"},
		without: []string{vllmNotes, "worker_initialized_regex has no effect"},
	},
	// Its test file says NIXL in vLLM's words, which win over the connectors that the scenario
	// adds.
	"vllm_kvbm_slurm.toml": {
		refused: "prefill_worker: connector names kvbm, but kv_transfer_config (vllm.toml:43:7), which wins, does not: KVBM " +
			"would not run",
	},
}

func places(p *plan.Plan) string {
	var list []string
	for _, r := range p.Roles {
		list = append(list, r.Name+" "+r.Nodes.String())
	}
	return strings.Join(list, ", ")
}

// The eight files of CloudAI's AIDynamo: two tests, and six scenarios that build on them or stand
// alone. What is to become of each is said above.
//
// covers: P-24
func TestDynamoCorpus(t *testing.T) {
	dir := filepath.Join(cloudaitest.Conf(t, os.Environ()), dynamoFolder)
	names, err := filepath.Glob(filepath.Join(dir, "*/*.toml"))
	require.NoError(t, err)
	require.Len(t, names, 8)
	for _, name := range names {
		if filepath.Base(filepath.Dir(name)) == "test" {
			test, err := scenario.LoadTest(scenario.File{Name: name, Data: read(t, name)})
			require.NoError(t, err)
			require.NoError(t, planner.Check(*test), "%s is in order", name)
			continue
		}
		file := filepath.Base(name)
		want, known := dynamoOutcomes[file]
		require.True(t, known, file)
		plans, err := corpusPlans(t, "", file)
		if want.refused != "" {
			require.ErrorContains(t, err, want.refused, file)
			plans, err = corpusPlans(t, "", file, kvTransfer)
			require.NoError(t, err, "without that key")
			require.Contains(t, roleEnv(plans[0], "prefill", "DYN_KVBM_DISK_CACHE_DIR"), "/mnt/vast/profllm-")
			require.Empty(t, roleEnv(plans[0], "decode", "DYN_KVBM_DISK_CACHE_DIR"))
			continue
		}
		require.NoError(t, err, file)
		require.Len(t, plans, len(want.tests), file)
		for _, p := range plans {
			require.Equal(t, want.tests[p.Test], places(p), "%s %s", file, p.Test)
			notes := strings.Join(p.Notes, "\n")
			for _, key := range want.without {
				require.Contains(t, notes, key, "%s %s", file, p.Test)
			}
			require.Equal(t, "nats", roleEnv(p, "decode", "DYN_EVENT_PLANE"), "the image is of 1.1.1")
		}
	}
}

// roleEnv is a variable of the first role of a kind.
func roleEnv(p *plan.Plan, kind, name string) string {
	for _, r := range p.Roles {
		if r.KindName() != kind {
			continue
		}
		for _, v := range r.Step.Env {
			if v.Name == name {
				return v.Value.String()
			}
		}
	}
	return ""
}

// corpusScripts are the scripts of those files for a launcher.
func corpusScripts(t testing.TB, launcher string) (list []script) {
	t.Helper()
	for file, want := range dynamoOutcomes {
		if want.refused != "" {
			continue
		}
		plans, err := corpusPlans(t, launcher, file)
		require.NoError(t, err, "%s %s", launcher, file)
		for _, p := range plans {
			text, err := render.Script(p, templates.FS)
			require.NoError(t, err)
			list = append(list, script{p, text, launcher + " " + file + " " + p.Test})
		}
	}
	require.Len(t, list, 8)
	return list
}

// Each has fewer than 200 lines, and shellcheck finds nothing in it.
func TestDynamoCorpusScripts(t *testing.T) {
	checked := tier.Of(t, len(containing), 1) // launchers
	for i, launcher := range containing {
		all := corpusScripts(t, launcher)
		short(t, launcher, all)
		if i < checked {
			shellcheck(t, all)
		}
	}
}

// crucible are the plans of our own services of Dynamo, by test.
func crucible(t testing.TB) map[string]*plan.Plan {
	t.Helper()
	all := map[string]*plan.Plan{}
	for _, p := range planned(t, "../../conf/slurm-pyxis.toml", format+"test_scenario/crucible.toml", format+"test") {
		all[p.Test] = p
	}
	return all
}

// A script is the same however often it is printed, and printing it writes no file.
//
// covers: P-10, U-17
func TestDynamoIsPrintedAlike(t *testing.T) {
	first, second := crucible(t), crucible(t)
	for name, p := range first {
		a, err := render.Script(p, templates.FS)
		require.NoError(t, err)
		b, err := render.Script(second[name], templates.FS)
		require.NoError(t, err)
		require.Equal(t, string(a), string(b), name)
		require.Equal(t, p.Files, second[name].Files, "%s: what the job writes is in the plan", name)
		require.NoDirExists(t, p.Dir)
	}
}

// The paths of the results and of the installation, as CloudAI's files have them, are there in
// every container.
//
// covers: P-25
func TestCloudAIPathsAreMounted(t *testing.T) {
	for name, p := range crucible(t) {
		require.Contains(t, p.Mounts, p.Dir+":/cloudai_run_results", name)
		require.Contains(t, p.Mounts, "/shared/profllm:/cloudai_install", name)
		require.Contains(t, p.Mounts, p.Dir+":"+p.Dir, name)
	}
}

// The plan has every decision, and no secret: it is made without a cluster.
//
// covers: P-23
func TestDynamoPlanSaysEverything(t *testing.T) {
	p := crucible(t)["shared"]
	data, err := p.Encode()
	require.NoError(t, err)
	text := string(data)
	for _, r := range p.Roles {
		require.NotEmpty(t, r.Step.Argv, r.Name)
		require.Positive(t, r.Nodes.Count, r.Name)
		require.Positive(t, r.Timeout, r.Name)
		if r.Engine {
			require.NotEmpty(t, r.GPUs, r.Name)
			require.Equal(t, plan.FormatGPUs(r.GPUs), roleEnv(p, r.KindName(), "CUDA_VISIBLE_DEVICES"))
		}
	}
	names := map[string]bool{}
	for _, port := range p.Ports {
		names[port.Name] = true
	}
	for _, name := range []string{"frontend", "decode", "decode_nixl", "decode_events", "prefill_kvbm_pub",
		"prefill_kvbm_ack"} {
		require.True(t, names[name], name)
	}
	require.Contains(t, text, "/shared/secrets/hf-token", "the file of the secret, not the secret")
	require.NotContains(t, text, "SLURM_JOB_NODELIST")
}

// Runs that follow each other have each their own variables and processes.
//
// covers: U-16
func TestDynamoRunsAreApart(t *testing.T) {
	all := crucible(t)
	for name, has := range map[string]struct{ lmcache, exporter bool }{
		"apart": {true, false}, "shared": {false, true},
	} {
		text, err := render.Script(all[name], templates.FS)
		require.NoError(t, err)
		require.Equal(t, has.lmcache, bytes.Contains(text, []byte("LMCACHE_CONFIG_FILE=")), name)
		require.NotContains(t, string(text), "export LMCACHE_CONFIG_FILE", "of the workers only")
		require.Equal(t, has.exporter, bytes.Contains(text, []byte("--job-name=dcgm_exporter ")), name)
		require.Equal(t, has.exporter, bytes.Contains(text, []byte(`"$DCGM_EXPORTER_PORT"/metrics`)), name)
	}
}

// The frontend is waited for with the workers, before any client, and watched with them while one
// runs.
//
// covers: U-18, U-22
func TestDynamoFrontendIsWatched(t *testing.T) {
	for name, p := range crucible(t) {
		text, err := render.Script(p, templates.FS)
		require.NoError(t, err)
		at := func(what string) int {
			i := strings.Index(string(text), what)
			require.Positive(t, i, "%s: %s", name, what)
			return i
		}
		frontend := at(`ROLES+=("frontend=$!")`)
		for _, r := range p.Roles {
			if r.Engine {
				require.Less(t, at(fmt.Sprintf(`ROLES+=("%s=$!")`, r.Name)), frontend, "%s: workers start first", name)
			}
		}
		ready := at(`"$PROFLLM" job wait --run "$RUN" "${ROLES[@]}"`)
		require.Less(t, frontend, ready)
		require.Less(t, ready, at("\nphase "))
		require.Contains(t, string(text), `job watch --run "$RUN" --client "$name" --until "$pid" "${ROLES[@]}"`)
	}
}

// Whatever fails ends the job with a record: the trap that writes it stands before the first step,
// no step of the setup is passed over, and every process has a time within which it must be ready.
//
// covers: U-19
func TestDynamoNeverHangs(t *testing.T) {
	for name, p := range crucible(t) {
		text, err := render.Script(p, templates.FS)
		require.NoError(t, err)
		trap := strings.Index(string(text), "trap finish EXIT\n")
		require.Positive(t, trap, name)
		require.Less(t, trap, strings.Index(string(text), "\nstep --job-name="), name)
		for _, s := range p.Setup {
			fails := strings.Contains(string(text), fmt.Sprintf(`|| { PHASES+=("%s=$?"); exit 1; }`, s.Name))
			require.Equal(t, !s.Optional, fails, "%s %s", name, s.Name)
		}
		for _, r := range p.Roles {
			require.Positive(t, r.Timeout, "%s %s", name, r.Name)
		}
	}
}

// The job ends with the verdict's exit code, not with that of stopping the exporter.
//
// covers: U-15
func TestExporterDoesNotHideFailures(t *testing.T) {
	text, err := render.Script(crucible(t)["shared"], templates.FS)
	require.NoError(t, err)
	require.Contains(t, string(text), `ROLES+=("dcgm_exporter=$!")`)
	finish := regexp.MustCompile(`(?s)\nfinish\(\) \{.*?\n\}\n`).FindString(string(text))
	require.NotEmpty(t, finish)
	dir := t.TempDir()
	program := filepath.Join(dir, "profllm") // stopping roles succeeds; the verdict is what the job's end says
	require.NoError(t, os.WriteFile(program, []byte(`#!/bin/bash
[ "$2" = finish ] || exit 0
while [ $# -gt 0 ] && [ "$1" != --code ]; do shift; done
exit "$2"
`), 0o755))
	for code, want := range map[string]int{"0": 0, "3": 3} {
		cmd := exec.Command("bash", "-c",
			"set -u\nPROFLLM="+program+" RUN=/run GUARD=1 FINISHING='' LATE='' CLIENT=() PHASES=(bench="+code+
				") POST=()\ntrue & ROLES=(\"dcgm_exporter=$!\")"+finish+"finish "+code)
		out, err := cmd.CombinedOutput()
		require.Equal(t, want, cmd.ProcessState.ExitCode(), "%v: %s", err, out)
	}
}
