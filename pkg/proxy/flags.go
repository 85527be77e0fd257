package proxy

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Flags are the command-line flags of `profllm proxy`: our own, and those of
// vLLM's toy_proxy_server.py, in whose place it may be run.
type Flags struct {
	Host string `default:"localhost" help:"Address to listen on."`
	Port uint16 `default:"8000" help:"Port to listen on."`

	Prefill []string `placeholder:"URL" help:"Base URL of a prefill instance; may be repeated."`
	Decode  []string `placeholder:"URL" help:"Base URL of a decode instance; may be repeated."`
	Server  []string `placeholder:"URL" help:"Base URL of a server that does both, in place of prefill and decode; may be repeated."`

	PrefillerHosts []string `aliases:"prefiller-host" placeholder:"HOST" help:"Hosts of the prefill instances, as in toy_proxy_server.py."`
	PrefillerPorts []uint16 `aliases:"prefiller-port" placeholder:"PORT" help:"Ports of the prefill instances, one per host."`
	DecoderHosts   []string `aliases:"decoder-host" placeholder:"HOST" help:"Hosts of the decode instances."`
	DecoderPorts   []uint16 `aliases:"decoder-port" placeholder:"PORT" help:"Ports of the decode instances, one per host."`

	Timeout     time.Duration `default:"0s" help:"Time limit of a whole request; 0s: no limit."`
	DialTimeout time.Duration `default:"5s" help:"Time limit of connecting to an instance."`
	Grace       time.Duration `default:"10s" help:"Time that streams get to end when the proxy stops."`

	MaxBody   Bytes `default:"256MiB" help:"Largest body of a request."`
	MaxBodies Bytes `default:"2GiB" help:"Largest sum of all bodies in memory; further requests are answered with 503."`
	MaxAnswer Bytes `default:"64MiB" help:"Largest answer of a prefill instance."`
	MaxHead   Bytes `default:"16KiB" help:"Largest header section of a request or an answer."`
}

// Bytes is a number of bytes. Its text is 512, 16KiB, 64MiB or 2GiB.
type Bytes int64

// UnmarshalText reads it.
func (b *Bytes) UnmarshalText(text []byte) error {
	digits, shift := string(text), 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if n, ok := strings.CutSuffix(digits, unit); ok {
			digits, shift = n, 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q: want a number of bytes, such as 16KiB, 64MiB or 2GiB", text)
	}
	*b = Bytes(n << shift)
	return nil
}

// many are the flags that take every value up to the next flag. kong has no
// such flags, so ParseArgs repeats the flag in front of each value.
var many = []string{
	"--prefill", "--decode", "--server",
	"--prefiller-hosts", "--prefiller-host", "--prefiller-ports", "--prefiller-port",
	"--decoder-hosts", "--decoder-host", "--decoder-ports", "--decoder-port",
}

// ErrHelp is returned by ParseArgs when the arguments ask for help.
var ErrHelp = errors.New("help requested")

// ParseArgs reads the command line of the proxy, without the program's name. It
// returns the address to listen on, host:port. A role's instances are given
// either as URLs (--prefill, --decode) or as hosts and ports of equal number
// (--prefiller-hosts ...). With no URL at all, hosts and ports have the toy
// proxy's defaults: localhost, 8100 for prefill and 8200 for decode.
func ParseArgs(args []string) (listen string, o Options, err error) {
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return "", Options{}, ErrHelp
	}
	var f Flags
	k, err := kong.New(&f, kong.Name("proxy"), kong.NoDefaultHelp(), kong.Exit(func(int) {}))
	if err != nil {
		return "", Options{}, err
	}
	if _, err := k.Parse(repeatFlags(args)); err != nil {
		return "", Options{}, err
	}
	return f.Options()
}

// Usage describes the flags, for a person.
func Usage() string {
	var text strings.Builder
	k, err := kong.New(&Flags{}, kong.Name("profllm proxy"), kong.Writers(&text, &text), kong.Exit(func(int) {}))
	if err != nil {
		return err.Error()
	}
	k.Parse([]string{"--help"}) // prints, and then complains of nothing new
	return text.String()
}

// repeatFlags turns "--decode A B" into "--decode=A --decode=B".
func repeatFlags(args []string) []string {
	var out []string
	flag := ""
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "-"):
			flag = ""
			bare := i+1 == len(args) || strings.HasPrefix(args[i+1], "-")
			if slices.Contains(many, a) && !bare {
				flag = a
				continue
			}
			out = append(out, a)
		case flag != "":
			out = append(out, flag+"="+a)
		default:
			out = append(out, a)
		}
	}
	return out
}

// Options returns the address to listen on and the options that f says.
func (f Flags) Options() (listen string, o Options, err error) {
	o = Options{Servers: f.Server, Timeout: f.Timeout, DialTimeout: f.DialTimeout, Grace: f.Grace,
		MaxBody: f.MaxBody, MaxBodies: f.MaxBodies, MaxAnswer: f.MaxAnswer, MaxHead: f.MaxHead}
	if err := f.instances(&o); err != nil {
		return "", Options{}, err
	}
	if err := o.check(); err != nil {
		return "", Options{}, err
	}
	return net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))), o, nil
}

// instances fills in the prefill and decode instances.
func (f Flags) instances(o *Options) error {
	named := len(f.PrefillerHosts) + len(f.PrefillerPorts) + len(f.DecoderHosts) + len(f.DecoderPorts)
	switch both := len(f.Prefill) + len(f.Decode) + named; {
	case len(f.Server) > 0 && both > 0:
		return errors.New("--server goes with no prefill and no decode instance: use one of them")
	case len(f.Server) > 0:
		return nil
	}
	defaults := len(f.Prefill)+len(f.Decode) == 0
	prefill, err := given{"prefill", f.Prefill, f.PrefillerHosts, f.PrefillerPorts, 8100}.instances(defaults)
	decode, err2 := given{"decode", f.Decode, f.DecoderHosts, f.DecoderPorts, 8200}.instances(defaults)
	o.Prefill, o.Decode = prefill, decode
	return errors.Join(err, err2)
}

// given is what the flags say about one role.
type given struct {
	role  string
	urls  []string
	hosts []string
	ports []uint16
	port  uint16 // the toy proxy's default
}

// instances lists the role's base URLs. With defaults, missing hosts and ports
// are the toy proxy's.
func (g given) instances(defaults bool) ([]string, error) {
	toy := "--" + strings.TrimSuffix(g.role, "e") + "er" // --prefiller, --decoder
	switch {
	case len(g.urls) > 0 && len(g.hosts)+len(g.ports) > 0:
		return nil, fmt.Errorf("--%s and %s-hosts or %s-ports: use one of them", g.role, toy, toy)
	case len(g.urls) > 0:
		return g.urls, nil
	case !defaults && len(g.hosts)+len(g.ports) == 0:
		return nil, fmt.Errorf("no --%s instance given", g.role)
	}
	if len(g.hosts) == 0 {
		g.hosts = []string{"localhost"}
	}
	if len(g.ports) == 0 {
		g.ports = []uint16{g.port}
	}
	if len(g.hosts) != len(g.ports) {
		return nil, fmt.Errorf("%d %s-hosts but %d %s-ports: want one port per host", len(g.hosts), toy, len(g.ports),
			toy)
	}
	var urls []string
	for i, host := range g.hosts {
		if g.ports[i] == 0 {
			return nil, fmt.Errorf("port 0 of %s instance %q", g.role, host)
		}
		urls = append(urls, "http://"+net.JoinHostPort(host, strconv.Itoa(int(g.ports[i]))))
	}
	return urls, nil
}
