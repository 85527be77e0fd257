// Package dynamo stands in for NVIDIA Dynamo's Python modules: its workers, which are the simulated
// engines, and the frontend that routes requests to them.
//
// A worker writes a file into the folder of DYN_FILE_KV once it is ready, whatever the discovery
// backend is, and the frontend reads that folder. Requests travel by HTTP. Neither speaks Dynamo's
// protocols: real and simulated processes do not mix. etcd and NATS, where the plan has them, have
// to be reachable, and store nothing.
//
//	python3 -m dynamo.vllm --model m             DYN_SYSTEM_PORT=15000 DYN_FILE_KV=/run/discovery
//	python3 -m dynamo.frontend --http-port 8000  DYN_FILE_KV=/run/discovery
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/sim/program"
)

// Prefix begins the names of Dynamo's modules.
const Prefix = "dynamo."

// The modules that are simulated.
const (
	frontendModule = Prefix + "frontend"
	vllmModule     = Prefix + "vllm"
	sglangModule   = Prefix + "sglang"
	mockerModule   = Prefix + "mocker"
)

var workers = []string{vllmModule, sglangModule, mockerModule}

// folderVar names the folder in which processes find each other.
const folderVar = "DYN_FILE_KV"

// Run runs one of Dynamo's Python modules.
func Run(ctx context.Context, p program.Process, module string, args []string) int {
	if module != frontendModule && !slices.Contains(workers, module) {
		return p.Fail(program.Missing, fmt.Errorf("python3 -m %s is not simulated: want %s or %s", module,
			strings.Join(workers, ", "), frontendModule))
	}
	if p.Env(folderVar) == "" {
		return p.Fail(program.Usage, errors.New(folderVar+" is not set: it names the folder in which simulated "+
			"processes find each other"))
	}
	if err := reachable(ctx, p.Env); err != nil {
		return p.Fail(program.Failed, err)
	}
	if module == frontendModule {
		return serveFrontend(ctx, p, args)
	}
	return serveWorker(ctx, p, module, args)
}

// planes are what Dynamo's processes have to reach, and what they say where they cannot (1.6.1).
var planes = []struct{ variable, failed string }{
	{"ETCD_ENDPOINTS", "Could not connect to etcd. Pass `--discovery-backend ..` to use a different backend or start etcd."},
	{"NATS_SERVER", "NATS startup connection timed out"},
}

// patience is how long a process waits for etcd and NATS. The real one waits for two minutes.
const patience = 10 * time.Second

// reachable waits until the services of the control plane that the environment names take
// connections.
func reachable(ctx context.Context, env func(string) string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	for _, plane := range planes {
		at := env(plane.variable)
		if at == "" {
			continue
		}
		u, err := url.Parse(at)
		if err != nil {
			return fmt.Errorf("%s: %w", plane.variable, err)
		}
		for {
			c, err := d.DialContext(ctx, "tcp", u.Host)
			if err == nil {
				c.Close()
				break
			}
			if !program.Wait(ctx, 200*time.Millisecond) {
				return fmt.Errorf("%s (%s=%s): %w", plane.failed, plane.variable, at, err)
			}
		}
	}
	return nil
}
