package planner

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/catalog"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/scenario"
	"github.com/profllm/profllm/pkg/source"
)

// workload makes the workload of a test.
func workload(t scenario.Test, needImage bool) (plan.Workload, error) {
	if err := inapplicable(t); err != nil {
		return nil, err
	}
	newWorkload, _, ok := catalog.Find(catalog.Workloads, t.Template)
	if !ok {
		if newWorkload, _, ok = catalog.Find(catalog.Tools, t.Template); !ok {
			return nil, notRun(t)
		}
	}
	return newWorkload(t, needImage)
}

// notRun says why a test has no plan.
func notRun(t scenario.Test) error {
	note, err := catalog.Template(&t)
	if note == "" {
		return err
	}
	return source.Errorf(t.PosOf("test_template_name"), "test %q: the workload %s is not supported yet", t.ID,
		t.Template).
		Hintf("remove the test, or run its command as a SlurmContainer or BashCmd test; profllm supports %s",
			strings.Join(catalog.Runnable(), ", "))
}

// serves reports whether a workload is a service that a client measures.
func serves(template string) bool {
	_, _, ok := catalog.Find(catalog.Workloads, template)
	return ok
}

// isTool reports whether a workload is known to serve nothing.
func isTool(template string) bool {
	_, _, ok := catalog.Find(catalog.Tools, template)
	return ok
}

// nothingToMeasure refuses what asks for a service in a test that has none. It says nothing
// of a workload that profllm does not know: workload refuses that.
func nothingToMeasure(t scenario.Test) error {
	var c source.Complaints
	if !isTool(t.Template) {
		return nil
	}
	for _, s := range []struct {
		key   string
		table *source.Table
	}{{"bench_cmd_args", t.BenchArgs}, {"semantic_eval_cmd_args", t.EvalArgs}} {
		if s.table != nil {
			c.Add(source.Errorf(s.table.Pos, "test %q: a %s test serves nothing, so %s has no effect", t.ID, t.Template,
				s.key).Hintf("remove it"))
		}
	}
	if t.AfterLoad != "" {
		c.Add(source.Errorf(t.PosOf("after_load"), "test %q: a %s test serves nothing, so after_load has no effect",
			t.ID, t.Template).Hintf("remove it"))
	}
	if t.Client != "" {
		c.Add(source.Errorf(t.PosOf("client"), "test %q: a %s test serves nothing, so client = %q has no effect", t.ID,
			t.Template, t.Client).Hintf("remove it"))
	}
	if t.ClientNodes != 0 {
		c.Add(source.Errorf(t.PosOf("client_nodes"), "test %q: a %s test serves nothing, so client_nodes has no effect",
			t.ID, t.Template).Hintf("remove it"))
	}
	return c.Err()
}

// NotRunnable says why tests cannot run although they can be read, "" if they can: their
// workload is not supported, or something that the workload is asked for.
func NotRunnable(tests ...scenario.Test) string {
	var why []string
	if text := catalog.Unsupported(tests...); text != "" {
		why = append(why, text)
	}
	for _, t := range tests {
		w, err := workload(t, false)
		if err != nil {
			continue // Check says it
		}
		if r, ok := w.(interface{ NotRunnable() string }); ok && r.NotRunnable() != "" &&
			!slices.Contains(why, r.NotRunnable()) {
			why = append(why, r.NotRunnable())
		}
	}
	return strings.Join(why, "; ")
}
