package planner_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/planner"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/pkg/scenario"
)

// A scenario and a site become plans, and a plan becomes a script.
func Example() {
	site, err := config.Parse("site.toml", []byte(`
name = "lab"
scheduler = "slurm"
install_path = "/shared/images"
output_path = "results"
default_partition = "gpu"
gpus_per_node = 8
launcher = "bare"
`))
	if err != nil {
		log.Fatal(err)
	}
	s, err := scenario.Load(scenario.File{Name: "demo.toml", Data: []byte(`
name = "demo"
[[Tests]]
id = "pd"
test_template_name = "vllm"
time_limit = "30m"
num_nodes = 2
[Tests.cmd_args]
model = "Qwen/Qwen3-8B"
[Tests.cmd_args.prefill]
tensor_parallel_size = 2
[Tests.cmd_args.decode]
tensor_parallel_size = 4
`)}, nil, scenario.HookFiles{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := planner.Plans(s, site, planner.Options{
		Version: "v0", Created: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Output: "/out", Binary: "/bin/profllm",
		WorkDir: "/home/u",
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range set.Plans[0].Roles {
		fmt.Println(r.Name, "nodes", r.Nodes, "TP", r.TP)
	}
	script, err := render.Script(set.Plans[0], os.DirFS("../../templates"))
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(script)) {
		if strings.HasPrefix(line, "#SBATCH --nodes") || strings.HasPrefix(line, "#SBATCH --time") {
			fmt.Print(line)
		}
	}
	// Output:
	// prefill nodes 0 TP 2
	// decode nodes 1 TP 4
	// proxy nodes 0 TP 0
	// #SBATCH --nodes=2
	// #SBATCH --time=00:30:00
}
