package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseArgs(t *testing.T) {
	for _, c := range []struct {
		name, args      string
		listen          string
		prefill, decode []string
		servers         []string
		err             string
	}{
		{
			name: "servers", args: "--server http://a:1 http://b:1 --port 9",
			listen: "localhost:9", servers: []string{"http://a:1", "http://b:1"},
		},
		{name: "servers and a role", args: "--server http://a:1 --decode http://c:1", err: "use one of them"},
		{name: "servers and hosts", args: "--server http://a:1 --decoder-ports 1", err: "use one of them"},
		{
			name: "ours", args: "--host 0.0.0.0 --port 9000 --prefill http://a:1 --prefill=http://b:1 --decode http://c:2",
			listen: "0.0.0.0:9000", prefill: []string{"http://a:1", "http://b:1"}, decode: []string{"http://c:2"},
		},
		{
			name:   "several after one flag",
			args:   "--prefill http://a:1 http://b:1 --decode http://c:2 http://d:2 http://e:2 --port 9",
			listen: "localhost:9", prefill: []string{"http://a:1", "http://b:1"},
			decode: []string{"http://c:2", "http://d:2", "http://e:2"},
		},
		{
			name:   "toy proxy",
			args:   "--port 8192 --prefiller-hosts n1 n2 --prefiller-ports 8100 8101 --decoder-hosts n3 --decoder-ports 8200",
			listen: "localhost:8192", prefill: []string{"http://n1:8100", "http://n2:8101"},
			decode: []string{"http://n3:8200"},
		},
		{
			name:   "toy proxy, singular",
			args:   "--prefiller-host n1 --prefiller-port 1 --decoder-host n3 n4 --decoder-port 2 3",
			listen: "localhost:8000", prefill: []string{"http://n1:1"}, decode: []string{"http://n3:2", "http://n4:3"},
		},
		{
			name: "toy proxy's defaults", args: "",
			listen: "localhost:8000", prefill: []string{"http://localhost:8100"},
			decode: []string{"http://localhost:8200"},
		},
		{
			name: "toy proxy's default host", args: "--prefiller-port 7",
			listen: "localhost:8000", prefill: []string{"http://localhost:7"},
			decode: []string{"http://localhost:8200"},
		},
		{
			name: "IPv6", args: "--host :: --prefiller-hosts ::1 --prefiller-ports 7 --decode http://[::1]:8",
			listen: "[::]:8000", prefill: []string{"http://[::1]:7"}, decode: []string{"http://[::1]:8"},
		},
		{name: "one role only", args: "--prefill http://a:1", err: "no --decode instance given"},
		{name: "both ways", args: "--prefill http://a:1 --prefiller-hosts b --decode http://c:1", err: "use one of them"},
		{name: "unequal numbers", args: "--decoder-hosts a b --decoder-ports 1", err: "2 --decoder-hosts but 1 --decoder-ports"},
		{name: "unequal numbers with a default", args: "--prefiller-ports 1 2", err: "1 --prefiller-hosts but 2 --prefiller-ports"},
		{name: "port too large", args: "--port 65536", err: "65536"},
		{name: "port 0 of an instance", args: "--prefiller-port 0", err: "port 0"},
		{name: "no value", args: "--prefiller-hosts --port 1", err: "--prefiller-hosts"},
		{name: "unknown flag", args: "--prefiler-hosts a", err: "--prefiler-hosts"},
		{name: "stray word", args: "serve", err: "serve"},
		{name: "help", args: "--help", err: ErrHelp.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			listen, o, err := ParseArgs(strings.Fields(c.args))
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.listen, listen)
			require.Equal(t, c.prefill, o.Prefill)
			require.Equal(t, c.decode, o.Decode)
			require.Equal(t, c.servers, o.Servers)
			_, err = New(o)
			require.NoError(t, err)
		})
	}
}

func TestParseArgsTimes(t *testing.T) {
	_, o, err := ParseArgs([]string{"--timeout", "90s", "--dial-timeout=1s", "--grace", "3s"})
	require.NoError(t, err)
	require.Equal(t, [3]time.Duration{90 * time.Second, time.Second, 3 * time.Second},
		[3]time.Duration{o.Timeout, o.DialTimeout, o.Grace})
}

func TestUsageNamesEveryFlag(t *testing.T) {
	usage := Usage()
	for _, flag := range many {
		if strings.HasSuffix(flag, "-host") || strings.HasSuffix(flag, "-port") {
			continue // kong leaves aliases out
		}
		require.Contains(t, usage, flag)
	}
}

// FuzzParseArgs: no arguments crash it, and what it accepts has both roles, or servers.
func FuzzParseArgs(f *testing.F) {
	f.Add("--prefill http://a:1 http://b:1 --decode http://c:2")
	f.Add("--prefiller-hosts a b --prefiller-ports 1 2")
	f.Add("--server http://a:1 http://b:1")
	f.Add("--host= --port=1 -- --decode")
	f.Fuzz(func(t *testing.T, line string) {
		listen, o, err := ParseArgs(strings.Fields(line))
		if err != nil {
			return
		}
		require.NotEmpty(t, listen)
		require.Equal(t, len(o.Servers) == 0, len(o.Prefill) > 0)
		require.Equal(t, len(o.Servers) == 0, len(o.Decode) > 0)
	})
}
