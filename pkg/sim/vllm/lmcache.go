package vllm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Connectors of LMCache: inside of the engine, and to `lmcache server`.
const (
	inProcess   = "LMCacheConnectorV1"
	mpConnector = "LMCacheMPConnector"
)

const (
	configVar   = "LMCACHE_CONFIG_FILE"
	dialTimeout = 5 * time.Second
)

// findCache fails if the engine's flags and environment name a store of LMCache that is not there.
func findCache(ctx context.Context, p program.Process, f *program.Flags) error {
	c, err := connectorOf(f)
	if err == nil {
		err = lmcache(ctx, p, c)
	}
	if err != nil {
		return fmt.Errorf("LMCache: %w", err)
	}
	return nil
}

// lmcache looks whether LMCache would find its configuration and its store, from this node. A
// real engine may start without them, and then nothing is reused; a rehearsal is to find that.
func lmcache(ctx context.Context, p program.Process, c connector) error {
	for _, one := range c.inside() {
		if err := lmcache(ctx, p, one); err != nil {
			return err
		}
	}
	switch c.Name {
	case mpConnector:
		host := fmt.Sprint(cmp.Or(c.Extra["lmcache.mp.host"], any("tcp://localhost")))
		return dial(ctx, p, "lmcache.mp.host and lmcache.mp.port",
			fmt.Sprintf("%s:%v", host, cmp.Or(c.Extra["lmcache.mp.port"], any(5555))))
	case inProcess:
		remote, err := remoteURL(p, c)
		if err != nil || remote == "" {
			return err
		}
		return dial(ctx, p, "remote_url", remote)
	}
	return nil
}

// remoteURL is LMCache's remote_url: of the connector's own configuration, of its file, or of
// its variable, which is not read beside a file.
func remoteURL(p program.Process, c connector) (string, error) {
	if own := c.Extra["lmcache.remote_url"]; own != nil {
		return fmt.Sprint(own), nil
	}
	name := p.Env(configVar)
	if name == "" {
		return p.Env("LMCACHE_REMOTE_URL"), nil
	}
	text, err := regular.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", configVar, err)
	}
	found := ""
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == "remote_url" {
			found = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	if found == "null" {
		found = ""
	}
	return found, nil
}

// dial tries an address such as lm://host:port. A simulated node's own address stands for localhost.
func dial(ctx context.Context, p program.Process, what, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		return fmt.Errorf("%s %q: want a host with a port, such as tcp://host:5555", what, address)
	}
	at := u.Host
	if node := p.Env("PROFLLM_NODE_ADDR"); node != "" && u.Hostname() == "localhost" {
		at = net.JoinHostPort(node, u.Port())
	}
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: nothing answers at %s", what, address), err)
	}
	return conn.Close()
}
