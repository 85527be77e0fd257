package plan

import "github.com/profllm/profllm/pkg/source"

// sentAgain refuses a load whose prompts an earlier one has sent to the same
// servers, if nothing says what becomes of their prefix caches: its numbers could be
// of a warm one (vllm-project/vllm#53920).
func sentAgain(in Input, service Service) error {
	var c source.Complaints
	if service.Cache.Off {
		return nil
	}
	for i, l := range in.Loads {
		if l.Cache != "" || l.Keeps {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if earlier := in.Loads[j]; earlier.Prompts == l.Prompts {
				c.Add(source.Errorf(l.Pos,
					"load %q sends the prompts of %q again to the same server, whose prefix cache may hold them",
					l.Name, earlier.Name).
					Hintf("in the phase, write cache = \"reset\", or cache = \"keep\" to measure a warm cache, or another seed in its bench_cmd_args"))
				break
			}
			if in.Loads[j].Cache == CacheReset {
				break
			}
		}
	}
	return c.Err()
}
